//! A program with too little memory: `thrash FILE MIB` writes a file of that size and reads it repeatedly
//! until it is killed. In a cgroup with less memory, each round reads from disk.

use std::fs::File;
use std::io::{self, Write};

fn main() -> io::Result<()> {
    let mut args = std::env::args().skip(1);
    let (Some(path), Some(mib)) = (args.next(), args.next().and_then(|mib| mib.parse::<usize>().ok())) else {
        return Err(io::Error::other("usage: thrash FILE MIB"));
    };
    let mut file = File::create(&path)?;
    for _ in 0..mib {
        file.write_all(&[1; 1 << 20])?;
    }
    file.sync_all()?;
    loop {
        io::copy(&mut File::open(&path)?, &mut io::sink())?;
    }
}
