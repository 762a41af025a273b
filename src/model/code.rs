//! The functions of a program that led to a sleep, as one text: reports and files have thousands of such stacks.

/// A function of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CodeFunction<'s> {
    /// The program or library that it is in, without directory; empty for what a just-in-time compiler wrote.
    pub module: &'s str,
    /// Name of the function; empty if it is unknown.
    pub name: &'s str,
}

impl<'s> CodeFunction<'s> {
    /// What begins the reason for a missing name. No symbol begins so.
    const UNKNOWN: char = '?';
    /// Name of a function of a file without symbols, which `+0x` and an address in the file can follow.
    pub(crate) const STRIPPED: &'static str = "?stripped";
    /// In place of the callers that are unknown, since nothing says how to find them.
    pub(crate) const NO_UNWIND_TABLES: &'static str = "?no unwind tables";
    /// In place of the functions that a runtime compiled or interprets without telling their names.
    pub(crate) const WITHOUT_FRAMES: Self = CodeFunction { module: "", name: "?runtime without frames" };

    /// Whether it has a name of its own.
    pub(crate) fn is_named(self) -> bool {
        !self.name.is_empty() && !self.name.starts_with(Self::UNKNOWN)
    }

    /// Whether it stands for functions that are not known, however many.
    pub(crate) fn is_gap(self) -> bool {
        self.name == Self::NO_UNWIND_TABLES || self == Self::WITHOUT_FRAMES
    }

    /// The same without its place in the file, which is another one in each build.
    pub(crate) fn without_place(self) -> Self {
        let is_stripped = self.name.starts_with(Self::STRIPPED);
        if is_stripped { Self { name: Self::STRIPPED, ..self } } else { self }
    }

    /// The functions of a stack, in its order: the innermost first. An empty text has none.
    pub fn all(stack: &'s str) -> impl DoubleEndedIterator<Item = Self> + Clone {
        stack.split(';').filter(|text| !text.is_empty()).map(|text| {
            let (module, name) = text.split_once(':').unwrap_or((text, ""));
            Self { module, name }
        })
    }

    /// The function in a stack: `module:name`. What would end one of both is replaced.
    pub fn text(self) -> String {
        format!("{}:{}", self.module.replace([':', ';'], "_"), self.name.replace(';', ","))
    }

    /// The name, or in brackets what it is in and why it has none: `[server+0x1a2b0: stripped]`.
    pub fn label(self) -> String {
        let Self { module, name } = self;
        match (module, name.strip_prefix(Self::UNKNOWN)) {
            ("", None) if name.is_empty() => "[unknown code]".to_owned(),
            (_, None) if name.is_empty() => format!("[{module}]"),
            (_, None) => name.to_owned(),
            ("", Some(why)) => format!("[{why}]"),
            (_, Some(why)) => {
                let (why, place) =
                    why.split_once('+').map_or((why, String::new()), |(why, at)| (why, format!("+{at}")));
                format!("[{module}{place}: {why}]")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_names_make_a_stack_whose_functions_are_found_again() {
        let functions = [("libc.so.6", "poll"), ("a:b;c", "f<x;y>::g"), ("redis-server", ""), ("", "")];
        let texts = functions.map(|(module, name)| CodeFunction { module, name }.text());
        let stack = texts.join(";");
        let labels: Vec<_> = CodeFunction::all(&stack).map(CodeFunction::label).collect();
        assert_eq!(labels, ["poll", "f<x,y>::g", "[redis-server]", "[unknown code]"]);
        assert_eq!(CodeFunction::all(&stack).nth(1), Some(CodeFunction { module: "a_b_c", name: "f<x,y>::g" }));
    }

    #[test]
    fn a_label_says_why_there_is_no_name() {
        let stack = "app:?stripped+0x1a2b0;app:?stripped;libmusl.so:?no unwind tables;:?runtime without frames;app:f";
        let functions: Vec<_> = CodeFunction::all(stack).collect();
        let labels: Vec<_> = functions.iter().map(|function| function.label()).collect();
        let expected = [
            "[app+0x1a2b0: stripped]",
            "[app: stripped]",
            "[libmusl.so: no unwind tables]",
            "[runtime without frames]",
            "f",
        ];
        assert_eq!(labels, expected);
        assert_eq!(functions[0].without_place(), functions[1]);
        assert_eq!(CodeFunction::all("").count(), 0);
        let gaps: Vec<_> = functions.iter().map(|function| function.is_gap()).collect();
        assert_eq!(gaps, [false, false, true, true, false]);
        assert_eq!(functions.iter().filter(|function| function.is_named()).count(), 1);
    }
}
