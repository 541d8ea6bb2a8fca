//! Puts secrets back where an agent writes what it was shown.
//!
//! Owns what a placeholder in a `Write` or an `Edit` stands for. The file itself says it, so nothing is stored, and a
//! secret goes back into the file that it is in and nowhere else. What is not certain is an error that says what to do:
//! a placeholder never takes a secret's place.

use std::fmt::Write as _;
use std::ops::Range;

use rawko_provider::REDACTED;

use super::masked::{Mark, Masked, placeholders};

/// Why a placeholder cannot be replaced.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unclear {
    /// The file holds no such token.
    Elsewhere { placeholder: String },
    /// Several secrets would fit, on this line of what is written.
    Ambiguous { line: usize },
    /// `old_string` occurs more than once, around different secrets.
    Several,
}

impl Unclear {
    /// In words, for the model.
    pub(super) fn message(&self, path: &str) -> String {
        let mut text = "Nothing was written. ".to_owned();
        let _ = match self {
            Self::Elsewhere { placeholder } => write!(
                text,
                "`{placeholder}` stands for a secret that `{path}` does not hold, and rawko puts a secret back only into \
                 the file that it was in. Let the program read it from there, or leave it out."
            ),
            Self::Ambiguous { line } => write!(
                text,
                "`{path}` holds several secrets that are shown as `{REDACTED}`, and which of them belongs on line {line} \
                 is not clear. Keep what stands before it on its line as it is in the file, or change the other lines \
                 with Edit."
            ),
            Self::Several => write!(
                text,
                "old_string occurs more than once in `{path}`, around different secrets. Include more surrounding lines \
                 to make it unique."
            ),
        };
        text
    }
}

/// A place in the file that is shown as `[redacted]`: a known secret, or these very words.
struct Candidate<'a> {
    line: &'a str,
    label: &'a str,
    number: usize,
    real: &'a str,
}

/// What was shown of a file.
pub(super) struct Shown<'a> {
    masked: &'a Masked<'a>,
    candidates: Vec<(Range<usize>, Candidate<'a>)>,
}

impl<'a> Shown<'a> {
    pub(super) fn of(masked: &'a Masked<'a>) -> Self {
        let mut candidates = Vec::new();
        let mut start = 0;
        for line in masked.shown.split_inclusive('\n') {
            let mut before = 0;
            for (number, range) in placeholders(line).enumerate() {
                let label = line[before..range.start].trim();
                before = range.end;
                let range = start + range.start..start + range.end;
                if &masked.shown[range.clone()] == REDACTED {
                    let real = secret_at(masked, &range).map_or(REDACTED, |mark| mark.secret);
                    candidates.push((range, Candidate { line: line.trim_end(), label, number, real }));
                }
            }
            start += line.len();
        }
        Self { masked, candidates }
    }

    /// `text` with the secrets of the file in place of the placeholders. `part` of what was shown is what it replaces.
    pub(super) fn put_back(&self, text: &str, part: Range<usize>) -> Result<String, Unclear> {
        let mut whole = String::with_capacity(text.len());
        for (row, line) in (1..).zip(text.split_inclusive('\n')) {
            let mut from = 0;
            for (number, range) in placeholders(line).enumerate() {
                let label = line[from..range.start].trim();
                let placeholder = &line[range.clone()];
                whole.push_str(&line[from..range.start]);
                from = range.end;
                let real = if placeholder == REDACTED {
                    let here = Candidate { line: line.trim_end(), label, number, real: REDACTED };
                    self.known(&here, &part).ok_or(Unclear::Ambiguous { line: row })?
                } else {
                    let token = self.token(placeholder);
                    token.ok_or_else(|| Unclear::Elsewhere { placeholder: placeholder.to_owned() })?
                };
                whole.push_str(real);
            }
            whole.push_str(&line[from..]);
        }
        Ok(whole)
    }

    /// The token that has this placeholder; the placeholder itself where the file holds these very words.
    fn token<'b>(&'b self, placeholder: &'b str) -> Option<&'b str> {
        let mut there = self.masked.shown.match_indices(placeholder);
        let (at, _) = there.next()?;
        let range = at..at + placeholder.len();
        Some(secret_at(self.masked, &range).map_or(placeholder, |mark| mark.secret))
    }

    /// What `[redacted]` stands for: what it stands for on the same line of the file, after the same words, or
    /// everywhere. `None` if that is not one thing.
    fn known(&self, here: &Candidate<'_>, part: &Range<usize>) -> Option<&str> {
        let is_secret = |(_, candidate): &&(Range<usize>, Candidate<'_>)| candidate.real != REDACTED;
        if !self.candidates.iter().any(|candidate| is_secret(&candidate)) {
            // The file holds no secret that this could take the place of.
            return Some(REDACTED);
        }
        let inside: Vec<&Candidate<'_>> = self
            .candidates
            .iter()
            .filter(|(range, _)| part.start <= range.start && range.end <= part.end)
            .map(|(_, candidate)| candidate)
            .collect();
        let all: Vec<&Candidate<'_>> = if inside.is_empty() {
            self.candidates.iter().map(|(_, candidate)| candidate).collect()
        } else {
            inside
        };
        let same_line = |c: &&&Candidate<'_>| c.line == here.line && c.number == here.number;
        let same_label = |c: &&&Candidate<'_>| !here.label.is_empty() && c.label == here.label;
        let on_line: Vec<&Candidate<'_>> = all.iter().filter(same_line).copied().collect();
        let labelled: Vec<&Candidate<'_>> = all.iter().filter(same_label).copied().collect();
        let fitting = [on_line, labelled, all].into_iter().find(|fitting| !fitting.is_empty())?;
        let first = fitting.first()?.real;
        fitting.iter().all(|candidate| candidate.real == first).then_some(first)
    }
}

fn secret_at<'m, 'a>(masked: &'m Masked<'a>, range: &Range<usize>) -> Option<&'m Mark<'a>> {
    masked.marks.iter().find(|mark| mark.range == *range)
}

/// The texts of an `Edit` as they are in the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RealEdit {
    pub(super) old: String,
    pub(super) new: String,
}

/// What an `Edit` really replaces, and by what. `None` leaves the call as it is: the tool says that nothing matches.
pub(super) fn edit(masked: &Masked<'_>, old: &str, new: &str) -> Result<Option<RealEdit>, Unclear> {
    let shown = Shown::of(masked);
    if placeholders(old).next().is_none() {
        let new = shown.put_back(new, 0..masked.shown.len())?;
        return Ok(Some(RealEdit { old: old.to_owned(), new }));
    }
    // Models see lines without their endings and write `\n`.
    let spellings = [old.to_owned(), old.replace("\r\n", "\n").replace('\n', "\r\n")];
    for spelling in &spellings {
        let places = masked.shown.match_indices(spelling.as_str()).map(|(at, _)| at..at + spelling.len());
        let matches: Vec<(Range<usize>, &str)> =
            places.filter_map(|place| Some((place.clone(), masked.real(place)?))).collect();
        let Some((place, real)) = matches.first() else { continue };
        if matches.iter().any(|(_, other)| other != real) {
            return Err(Unclear::Several);
        }
        let new = shown.put_back(new, place.clone())?;
        let old = if spelling == old { (*real).to_owned() } else { real.replace("\r\n", "\n") };
        return Ok(Some(RealEdit { old, new }));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::super::redactor;
    use super::*;

    const ONE: &str = "sk-canary-9f31c0d7";
    const TWO: &str = "tok-canary-2a94c1f0";

    fn github() -> String {
        "ghp_".to_owned() + "7Kp2mQx9Lw4Zt8Rv3Ns6Hb5Jd1Fg0YcTuEaW"
    }

    /// Writing `new` over `file` puts this into it.
    #[track_caller]
    fn check_write(file: &str, new: &str, expected: Result<&str, Unclear>) {
        let redactor = redactor(&[ONE, TWO]);
        let masked = redactor.masked(file);
        let written = Shown::of(&masked).put_back(new, 0..masked.shown.len());
        assert_eq!(written, expected.map(str::to_owned), "{new} over {}", masked.shown);
    }

    #[track_caller]
    fn check_edit(file: &str, old: &str, new: &str, expected: Result<Option<(&str, &str)>, Unclear>) {
        let redactor = redactor(&[ONE, TWO]);
        let masked = redactor.masked(file);
        let real = edit(&masked, old, new);
        let expected =
            expected.map(|real| real.map(|(old, new)| RealEdit { old: old.into(), new: new.into() }));
        assert_eq!(real, expected, "{old} to {new} in {}", masked.shown);
    }

    /// The file as it is shown.
    fn shown(file: &str) -> String {
        redactor(&[ONE, TWO]).masked(file).shown
    }

    #[test]
    fn what_was_shown_is_written_back_as_it_was() {
        let file = format!("A={ONE}\nB={TWO}\nC={}\nD=plain\n", github());
        assert!(!shown(&file).contains("canary") && !shown(&file).contains("ghp_"), "{}", shown(&file));
        check_write(&file, &shown(&file), Ok(&file));
        let turned = format!("D=2\nB={TWO}\nC={}\nA={ONE}\n", github());
        check_write(&file, &shown(&turned), Ok(&turned));
        let list = format!("keys: [{ONE}, {TWO}]\n");
        check_write(&list, &shown(&list), Ok(&list));
    }

    #[test]
    fn a_changed_line_keeps_its_secret() {
        let file = format!("A={ONE}\nB={TWO}\n");
        check_write(&file, "A=[redacted] # ours\nB=[redacted]\n", Ok(&format!("A={ONE} # ours\nB={TWO}\n")));
        check_write(&format!("A={ONE}\n"), "export KEY=[redacted]\n", Ok(&format!("export KEY={ONE}\n")));
        check_write(&file, "X=[redacted]\n", Err(Unclear::Ambiguous { line: 1 }));
        check_write(&format!("- {ONE}\n- {TWO}\n"), "\n- [redacted]\n", Err(Unclear::Ambiguous { line: 2 }));
    }

    #[test]
    fn words_that_stand_for_nothing_are_words() {
        check_write("A=[redacted]\n", "A=[redacted]\nB=[redacted]\n", Ok("A=[redacted]\nB=[redacted]\n"));
        check_write("", "[redacted]", Ok("[redacted]"));
        let both = format!("# shown as [redacted]\nA={ONE}\n");
        check_write(&both, "# shown as [redacted]\nA=[redacted]\nB=1\n", Ok(&format!("{both}B=1\n")));
        check_write(&both, "B=[redacted]\n", Err(Unclear::Ambiguous { line: 1 }));
    }

    #[test]
    fn a_token_goes_only_where_it_was() {
        let placeholder = shown(&github());
        check_write(
            "A=1\n",
            &format!("A={placeholder}\n"),
            Err(Unclear::Elsewhere { placeholder: placeholder.clone() }),
        );
        let literal = format!("as in {placeholder}\n");
        check_write(&literal, &format!("{literal}B\n"), Ok(&format!("{literal}B\n")));
    }

    #[test]
    fn an_edit_finds_what_was_shown() {
        let file = format!("A={ONE}\nB={TWO}\nC=1\n");
        let (old, new) = (format!("A={ONE}\nB={TWO}"), format!("B={TWO}\nA={ONE}\nD=1"));
        check_edit(&file, &shown(&old), &shown(&new), Ok(Some((&old, &new))));
        check_edit(&file, "=[redacted]\n", "=1\n", Err(Unclear::Several));
        check_edit(&file, "redacted", "x", Ok(Some(("redacted", "x"))));
        check_edit(&file, "Z=[redacted]", "Z=", Ok(None));
        check_edit(&file, "C=1", "C=[redacted]", Err(Unclear::Ambiguous { line: 1 }));
        let crlf = format!("A={ONE}\r\nC=1\r\n");
        check_edit(
            &crlf,
            "A=[redacted]\nC=1",
            "A=[redacted]\nC=2",
            Ok(Some((&format!("A={ONE}\nC=1"), &format!("A={ONE}\nC=2")))),
        );
        let twice = format!("A={ONE}\nA={ONE}\n");
        check_edit(
            &twice,
            "A=[redacted]",
            "B=[redacted]",
            Ok(Some((&format!("A={ONE}"), &format!("B={ONE}")))),
        );
    }

    #[test]
    fn the_messages_say_what_to_do() {
        let unclear = [
            Unclear::Elsewhere { placeholder: "[redacted:x:00000000]".into() },
            Unclear::Ambiguous { line: 3 },
            Unclear::Several,
        ];
        for unclear in unclear {
            let message = unclear.message("a.env");
            assert!(message.starts_with("Nothing was written.") && message.contains("a.env"), "{message}");
        }
    }
}
