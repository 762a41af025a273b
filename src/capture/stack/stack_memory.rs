//! The pages of a stack that unwinding asks for.

use crate::sys::memory::AddressSpace;

/// Size of one read in bytes, a part of a page.
const PIECE: usize = 4096;
/// Pieces of one stack, at most: nearly all stacks need two.
const MAX_PIECES: usize = 64;

/// Pieces of a process's memory that were read for one stack. They are forgotten with it.
pub(super) struct StackMemory<'s> {
    space: &'s AddressSpace,
    pieces: Vec<(u64, Box<[u8; PIECE]>)>,
    /// Whether the process has no such memory any more.
    pub(super) is_gone: bool,
}

impl<'s> StackMemory<'s> {
    pub(super) fn new(space: &'s AddressSpace) -> Self {
        Self { space, pieces: Vec::new(), is_gone: false }
    }

    /// The word at an address, if the page is the process's own and was written to.
    pub(super) fn word(&mut self, address: u64) -> Option<u64> {
        let (start, place) = (address & !(PIECE as u64 - 1), usize::try_from(address % PIECE as u64).ok()?);
        let already_read = self.pieces.iter().rposition(|(piece_start, _)| *piece_start == start);
        let number = already_read.or_else(|| self.read(start))?;
        Some(u64::from_ne_bytes(*self.pieces[number].1.get(place..)?.first_chunk()?))
    }

    fn read(&mut self, start: u64) -> Option<usize> {
        if self.pieces.len() >= MAX_PIECES {
            return None;
        }
        let mut bytes = Box::new([0; PIECE]);
        let read = self.space.read(start, &mut bytes[..]);
        self.is_gone |= read == Err(nix::errno::Errno::ESRCH);
        read.ok()?;
        self.pieces.push((start, bytes));
        Some(self.pieces.len() - 1)
    }
}
