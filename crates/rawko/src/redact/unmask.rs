//! Puts secrets back where an agent writes what it was shown.
//!
//! Finds the secret that a placeholder in a `Write` or an `Edit` represents. The file itself says it, so nothing is
//! stored, and a secret goes back into the file that it is in and nowhere else. If a placeholder is not certain, the
//! error says what to do: a placeholder never takes a secret's place.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::Range;

use rawko_provider::REDACTED;
use rawko_tools::edit_fault;

use super::Redactor;
use super::masked::{Mark, Masked, placeholders};

/// Why a call cannot be performed as it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unclear {
    /// The file holds nothing that is shown like this.
    Elsewhere { placeholder: String },
    /// Several secrets would fit, on this line of what is written.
    Ambiguous { line: usize },
    /// `old_string` occurs only across the end of a placeholder or inside one.
    Divided,
    /// `old_string` does not occur in what is shown of the file, or too often. The words are those of the tool.
    Place { why: String },
    /// Afterwards a secret of the file would be in it and not be recognised any more.
    Exposed,
}

impl Unclear {
    /// In words, for the model.
    pub(super) fn message(&self, path: &str) -> String {
        let mut text = "Nothing was written. ".to_owned();
        let _ = match self {
            Self::Elsewhere { placeholder } => write!(
                text,
                "`{placeholder}` stands for a secret that `{path}` does not hold, and rawko puts a secret back only into \
                 the file that it was in. Let the program read it from there, or leave it out. If you mean these very \
                 words, write others, such as `<hidden>`."
            ),
            Self::Ambiguous { line } => write!(
                text,
                "`{path}` holds several secrets that are shown as `{REDACTED}`, and which of them belongs on line {line} \
                 is not clear. Keep what stands before it on its line as it is in the file, or change the other lines \
                 with Edit."
            ),
            Self::Divided => write!(
                text,
                "old_string is a part of a placeholder in `{path}`, or ends inside one. A placeholder stands for a whole \
                 secret: include all of it, from `[` to `]`, or none of it."
            ),
            Self::Place { why } => write!(text, "`{path}`: {}", why.replacen("; nothing was written", "", 1)),
            Self::Exposed => write!(
                text,
                "A secret in `{path}` would not be recognised as one with these characters right beside it, and would be \
                 shown. Keep the characters right before and after the placeholder as they are in the file."
            ),
        };
        text
    }
}

/// A place in the file that is shown as `[redacted]`: a known secret, or these very words.
struct RedactedPlace<'a> {
    line: &'a str,
    label: &'a str,
    number: usize,
    real: &'a str,
}

/// What was shown of a file.
pub(super) struct Shown<'a> {
    masked: &'a Masked<'a>,
    candidates: Vec<(Range<usize>, RedactedPlace<'a>)>,
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
                    candidates.push((range, RedactedPlace { line: line.trim_end(), label, number, real }));
                }
            }
            start += line.len();
        }
        Self { masked, candidates }
    }

    /// `text` with the secrets of the file in place of the placeholders. `part` of what was shown is what it replaces.
    pub(super) fn unmask(&self, text: &str, part: Range<usize>) -> Result<String, Unclear> {
        let mut whole = String::with_capacity(text.len());
        for (row, line) in (1..).zip(text.split_inclusive('\n')) {
            let mut from = 0;
            for (number, range) in placeholders(line).enumerate() {
                let label = line[from..range.start].trim();
                let placeholder = &line[range.clone()];
                whole.push_str(&line[from..range.start]);
                from = range.end;
                let real = if placeholder == REDACTED {
                    if self.candidates.is_empty() {
                        return Err(Unclear::Elsewhere { placeholder: placeholder.to_owned() });
                    }
                    let here = RedactedPlace { line: line.trim_end(), label, number, real: REDACTED };
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

    /// What `[redacted]` represents: what it represents on the same line of the file, after the same words, or
    /// everywhere. `None` if that is not one thing. A file that holds these very words keeps them.
    fn known(&self, here: &RedactedPlace<'_>, part: &Range<usize>) -> Option<&str> {
        let inside: Vec<&RedactedPlace<'_>> = self
            .candidates
            .iter()
            .filter(|(range, _)| part.start <= range.start && range.end <= part.end)
            .map(|(_, candidate)| candidate)
            .collect();
        let all: Vec<&RedactedPlace<'_>> = if inside.is_empty() {
            self.candidates.iter().map(|(_, candidate)| candidate).collect()
        } else {
            inside
        };
        let same_line = |c: &&&RedactedPlace<'_>| c.line == here.line && c.number == here.number;
        let same_label = |c: &&&RedactedPlace<'_>| !here.label.is_empty() && c.label == here.label;
        let on_line: Vec<&RedactedPlace<'_>> = all.iter().filter(same_line).copied().collect();
        let labelled: Vec<&RedactedPlace<'_>> = all.iter().filter(same_label).copied().collect();
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

/// What an `Edit` really replaces, and by what: one place of the file. It is searched for in the file as it is shown, so
/// no answer depends on what a secret is made of.
pub(super) fn edit(
    redactor: &Redactor,
    masked: &Masked<'_>,
    old: &str,
    new: &str,
    all: bool,
) -> Result<RealEdit, Unclear> {
    let shown = Shown::of(masked);
    if masked.marks.is_empty() || old.is_empty() || old == new {
        let new = shown.unmask(new, 0..masked.shown.len())?;
        return Ok(RealEdit { old: old.to_owned(), new });
    }
    // Models see lines without their endings and write `\n`.
    let with_crlf = |text: &str| text.replace("\r\n", "\n").replace('\n', "\r\n");
    let spellings = [(old.to_owned(), new.to_owned()), (with_crlf(old), with_crlf(new))];
    let places_of = |old: &str| {
        let places = masked.shown.match_indices(old).map(|(at, _)| at..at + old.len());
        places.filter(|place| masked.real(place.clone()).is_some()).collect::<Vec<_>>()
    };
    let found =
        spellings.iter().map(|(old, new)| (places_of(old), new)).find(|(places, _)| !places.is_empty());
    let Some((places, new)) = found else {
        let why = edit_fault(&masked.shown, old, new, true);
        let Some(mut why) = why else { return Err(Unclear::Divided) };
        if let Some(placeholder) = placeholders(old).next() {
            let _ = write!(
                why,
                " `{}` stands for a secret: give its line exactly as it is shown, or use a text without it.",
                &old[placeholder]
            );
        }
        return Err(Unclear::Place { why });
    };
    if places.len() > 1
        && !all
        && let Some(why) = edit_fault(&masked.shown, old, new, false)
    {
        return Err(Unclear::Place { why });
    }
    let (first, last) = (places[0].start, places[places.len() - 1].end);
    let mut written = String::new();
    let mut from = first;
    for place in places {
        written.push_str(masked.real(from..place.start).ok_or(Unclear::Divided)?);
        written.push_str(&shown.unmask(new, place.clone())?);
        from = place.end;
    }
    let region = masked.real_range(first..last).ok_or(Unclear::Divided)?;
    let edit = only_place(masked.real, region, &written);
    stays_masked(redactor, masked, &masked.real.replacen(&edit.old, &edit.new, 1))?;
    Ok(edit)
}

/// The replacement of `region` by `written`, with as many lines around it as make it the only place of its kind.
fn only_place(real: &str, region: Range<usize>, written: &str) -> RealEdit {
    let (mut start, mut end) = (region.start, region.end);
    // A text that repeats itself for many lines is taken whole, so that the cost stays linear.
    for _ in 0..WIDENED {
        let mut there = real.match_indices(&real[start..end]);
        if there.next().is_some() && there.next().is_none() {
            break;
        }
        start = real[..real.floor_char_boundary(start.saturating_sub(1))].rfind('\n').map_or(0, |at| at + 1);
        end = real[end..].find('\n').map_or(real.len(), |at| end + at + 1);
    }
    let mut there = real.match_indices(&real[start..end]);
    if there.next().is_none_or(|(at, _)| at != start) || there.next().is_some() {
        (start, end) = (0, real.len());
    }
    RealEdit {
        old: real[start..end].to_owned(),
        new: [&real[start..region.start], written, &real[region.end..end]].concat(),
    }
}

/// Checks that the secrets of the file are masked in its `new` content as they were: a neighbouring character can make
/// the shape of a token unrecognisable. What a run remembers does not count, because a resumed one does not.
pub(super) fn stays_masked(redactor: &Redactor, masked: &Masked<'_>, new: &str) -> Result<(), Unclear> {
    let secrets: BTreeSet<&str> = masked.marks.iter().map(|mark| mark.secret).collect();
    if secrets.is_empty() {
        return Ok(());
    }
    let (before, after) = (redactor.masked_afresh(masked.real), redactor.masked_afresh(new));
    let bare = |masked: &Masked<'_>, secret: &str| {
        let places = masked.real.match_indices(secret).map(|(at, _)| at..at + secret.len());
        let is_bare = |place: &Range<usize>| {
            let at = masked.marks.partition_point(|mark| mark.real.end < place.end);
            masked.marks.get(at).is_none_or(|mark| mark.real.start > place.start)
        };
        places.filter(is_bare).count()
    };
    let is_shown = |secret: &&str| bare(&after, secret) > bare(&before, secret);
    if secrets.iter().any(is_shown) { Err(Unclear::Exposed) } else { Ok(()) }
}

/// How often the text around a change is widened to make it unique.
const WIDENED: usize = 4;

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
        let written = Shown::of(&masked).unmask(new, 0..masked.shown.len());
        assert_eq!(written, expected.map(str::to_owned), "{new} over {}", masked.shown);
    }

    #[track_caller]
    fn check_edit(file: &str, old: &str, new: &str, all: bool, expected: Result<(&str, &str), Unclear>) {
        let redactor = redactor(&[ONE, TWO]);
        let masked = redactor.masked(file);
        let real = edit(&redactor, &masked, old, new, all);
        let expected = expected.map(|(old, new)| RealEdit { old: old.into(), new: new.into() });
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
    fn words_without_a_secret_are_words() {
        check_write("A=[redacted]\n", "A=[redacted]\nB=[redacted]\n", Ok("A=[redacted]\nB=[redacted]\n"));
        let elsewhere = || Err(Unclear::Elsewhere { placeholder: "[redacted]".into() });
        check_write("", "[redacted]", elsewhere());
        // A secret that is no longer known, because its variable is not set today.
        check_write("A=sk-other-7d20c1ab\n", "A=[redacted]\nB=1\n", elsewhere());
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
        check_edit(&file, &shown(&old), &shown(&new), false, Ok((&old, &new)));
        check_edit(&file, "C=1", "C=[redacted]", false, Err(Unclear::Ambiguous { line: 1 }));
        let crlf = format!("A={ONE}\r\nC=1\r\n");
        check_edit(
            &crlf,
            "A=[redacted]\nC=1",
            "A=[redacted]\nC=2",
            false,
            Ok((&format!("A={ONE}\r\nC=1"), &format!("A={ONE}\r\nC=2"))),
        );
        let twice = format!("A={ONE}\nA={ONE}\n");
        let both = (format!("A={ONE}\nA={ONE}"), format!("B={ONE}\nB={ONE}"));
        check_edit(&twice, "A=[redacted]", "B=[redacted]", true, Ok((&both.0, &both.1)));
    }

    #[test]
    fn an_edit_changes_no_part_of_a_secret() {
        let file = format!("k={ONE}\nz={}\nx-y\n", github());
        // Text that also occurs in a secret is changed only outside it.
        check_edit(&file, "-", "- ", true, Ok(("x-y\n", "x- y\n")));
        check_edit(&file, "z=", "y=", false, Ok(("z=", "y=")));
        for (old, new) in [("redacted", "x"), ("[redac", "x"), ("=[redacted", "x")] {
            check_edit(&file, old, new, true, Err(Unclear::Divided));
        }
        // The answer is the same whether a secret begins like this or not.
        let answer = |old: &str| {
            let redactor = redactor(&[ONE, TWO]);
            let masked = redactor.masked(&file);
            edit(&redactor, &masked, old, "q", true).unwrap_err().message("f").replace(old, "GUESS")
        };
        assert_eq!(answer("sk-canary-9"), answer("sk-canary-8"));
        assert_eq!(answer("ghp_7Kp"), answer("ghp_7Kq"));
    }

    #[test]
    fn a_token_stays_recognisable() {
        let file = format!("z={}\n", github());
        let redactor = redactor(&[]);
        let masked = redactor.masked(&file);
        let placeholder = &masked.shown[2..masked.shown.len() - 1];
        assert_eq!(edit(&redactor, &masked, "z=", "zx", false), Err(Unclear::Exposed));
        let content =
            Shown::of(&masked).unmask(&format!("z=x{placeholder}\n"), 0..masked.shown.len()).unwrap();
        assert_eq!(content, format!("z=x{}\n", github()));
        assert_eq!(stays_masked(&redactor, &masked, &content), Err(Unclear::Exposed));
        assert_eq!(stays_masked(&redactor, &masked, &format!("{file}B=1\n")), Ok(()));
        // The run remembers it all the same; a resumed one would not.
        assert!(!redactor.masked(&content).shown.contains("ghp_"));
        assert!(redactor.masked_afresh(&content).shown.contains("ghp_"));
    }

    #[test]
    fn the_messages_say_what_to_do() {
        let unclear = [
            Unclear::Elsewhere { placeholder: "[redacted:x:00000000]".into() },
            Unclear::Ambiguous { line: 3 },
            Unclear::Divided,
            Unclear::Place { why: "old_string was not found".into() },
            Unclear::Exposed,
        ];
        for unclear in unclear {
            let message = unclear.message("a.env");
            assert!(message.starts_with("Nothing was written.") && message.contains("a.env"), "{message}");
        }
    }
}
