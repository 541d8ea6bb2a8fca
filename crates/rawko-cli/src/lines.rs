//! Input of one JSON object a line, from a file or standard input.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

use crate::failure::Failure;

/// Maximum bytes of one line. A longer one means that the file holds something else.
const LONGEST_LINE: u64 = 16 * 1024 * 1024;

/// Reads one line after the other, so that each can be answered before the next one is there.
pub(crate) struct LineReader {
    input: Box<dyn BufRead>,
    name: String,
    number: u64,
    line: Vec<u8>,
}

impl LineReader {
    /// Reads this file; standard input if it is `-` or missing. `what` are its lines, for the hint of an error.
    pub(crate) fn open(file: Option<&Path>, what: &str) -> Result<Self, Failure> {
        let (input, name): (Box<dyn BufRead>, String) = match file.filter(|file| file.as_os_str() != "-") {
            None => (Box::new(BufReader::new(io::stdin())), "standard input".to_owned()),
            Some(file) => {
                let name = file.display().to_string();
                let opened = File::open(file).map_err(|error| {
                    Failure::usage(format!("cannot read {name}: {error}")).with_hint(format!(
                        "name a file of {what}, one JSON object a line, or `-` for standard input"
                    ))
                })?;
                (Box::new(BufReader::new(opened)), name)
            }
        };
        Ok(Self { input, name, number: 0, line: Vec::new() })
    }

    /// Where the lines come from.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The number of the line that was read last, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The next line, as it is; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, Failure> {
        self.line.clear();
        self.number += 1;
        let (number, name) = (self.number, &self.name);
        let unreadable =
            |error: io::Error| Failure::usage(format!("cannot read line {number} of {name}: {error}"));
        let read = (&mut self.input).take(LONGEST_LINE).read_until(b'\n', &mut self.line);
        let read = read.map_err(unreadable)?;
        if read as u64 == LONGEST_LINE {
            return Err(Failure::usage(format!("line {number} of {name} is longer than 16 MiB")));
        }
        Ok((read > 0).then_some(self.line.as_slice()))
    }
}
