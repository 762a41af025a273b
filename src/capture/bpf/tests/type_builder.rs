//! Builds BTF for tests.

/// The types and names of a BTF file.
pub(crate) struct TypeBuilder {
    types: Vec<u8>,
    strings: Vec<u8>,
    count: u32,
}

impl TypeBuilder {
    pub(crate) fn new() -> Self {
        Self { types: vec![], strings: vec![0], count: 0 }
    }

    /// A type of any kind: `entries` is the number of what follows, with the flag as bit 31.
    pub(crate) fn add(&mut self, kind: u32, name: &str, entries: u32, size: u32, tail: &[u32]) -> u32 {
        let name = self.string(name);
        let words = [&[name, kind << 24 | entries, size], tail].concat();
        self.types.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        self.count += 1;
        self.count
    }

    pub(crate) fn signed(&mut self, name: &str, size: u32) -> u32 {
        self.add(1, name, 0, size, &[(1 << 24) + size * 8])
    }

    pub(crate) fn unsigned(&mut self, name: &str, size: u32) -> u32 {
        self.add(1, name, 0, size, &[size * 8])
    }

    pub(crate) fn pointer(&mut self, target: u32) -> u32 {
        self.add(2, "", 0, target, &[])
    }

    pub(crate) fn array(&mut self, element: u32, length: u32) -> u32 {
        self.add(3, "", 0, 0, &[element, 0, length])
    }

    /// A structure of members: name, type, offset in bytes.
    pub(crate) fn structure(&mut self, name: &str, size: u32, members: &[(&str, u32, u32)]) -> u32 {
        self.composite(4, name, size, members)
    }

    pub(crate) fn union(&mut self, name: &str, size: u32, members: &[(&str, u32, u32)]) -> u32 {
        self.composite(5, name, size, members)
    }

    fn composite(&mut self, kind: u32, name: &str, size: u32, members: &[(&str, u32, u32)]) -> u32 {
        let tail: Vec<u32> =
            members.iter().flat_map(|&(name, of_type, at)| [self.string(name), of_type, at * 8]).collect();
        self.add(kind, name, u32::try_from(members.len()).unwrap(), size, &tail)
    }

    pub(crate) fn typedef(&mut self, name: &str, target: u32) -> u32 {
        self.add(8, name, 0, target, &[])
    }

    /// The offset of a name, which is there once.
    pub(crate) fn string(&mut self, text: &str) -> u32 {
        let wanted = ["\0", text, "\0"].concat();
        let found = self.strings.windows(wanted.len()).position(|window| window == wanted.as_bytes());
        let offset = match found {
            _ if text.is_empty() => 0,
            Some(at) => at + 1,
            None => {
                self.strings.extend(&wanted.as_bytes()[1..]);
                self.strings.len() - text.len() - 1
            }
        };
        u32::try_from(offset).unwrap()
    }

    /// Returns the finished file.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.with_layout(&[])
    }

    /// The file, with a layout section if it has bytes.
    pub(crate) fn with_layout(self, layout: &[u8]) -> Vec<u8> {
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap();
        let (types, strings) = (length(&self.types), length(&self.strings));
        let mut words = vec![24, 0, types, types, strings];
        if !layout.is_empty() {
            words.extend([types + strings, length(layout)]);
            words[0] = 32;
        }
        let mut file = 0xeb9f_u16.to_ne_bytes().to_vec();
        file.extend([1, 0]);
        file.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        [file, self.types, self.strings, layout.to_vec()].concat()
    }
}
