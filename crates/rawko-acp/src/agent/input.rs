//! What a client gives with a prompt: text becomes the task; files, embedded texts and pictures become attachments, as
//! `rawko run --file` makes them.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use agent_client_protocol::v1::schema::{ContentBlock, EmbeddedResourceResource};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use rawko::{Attachment, attachment};
use rawko_core::text::truncate;

use super::fault::AcpFault;

/// Bytes of a task.
const LONGEST_TASK: usize = 1024 * 1024;
/// Bytes of a file.
const LONGEST_FILE: u64 = 16 * 1024 * 1024;
/// The most attachments.
const MOST: usize = 20;
/// Characters of a name in an error.
const NAME_CHARS: usize = 200;

/// A prompt as a run takes it.
#[derive(Debug, Default)]
pub(super) struct PromptInput {
    pub(super) task: String,
    pub(super) attachments: Vec<Attachment>,
}

impl PromptInput {
    /// Reads the blocks of a prompt about the project in `folder`. Blocks.
    pub(super) fn read(blocks: Vec<ContentBlock>, folder: &Path) -> Result<Self, AcpFault> {
        let mut input = Self::default();
        for block in blocks {
            input.take(block, folder)?;
        }
        if input.task.trim().is_empty() {
            return Err(AcpFault::of_request("the prompt has no text: say what to do"));
        }
        if input.task.len() > LONGEST_TASK {
            return Err(AcpFault::of_request("the text of the prompt is longer than 1 MiB")
                .with_hint(Some("put a part of it into a file of the project, and name it")));
        }
        if input.attachments.len() > MOST {
            let given = input.attachments.len();
            return Err(AcpFault::of_request(format!(
                "{given} files and pictures are given; the most is {MOST}"
            )));
        }
        Ok(input)
    }

    fn take(&mut self, block: ContentBlock, folder: &Path) -> Result<(), AcpFault> {
        match block {
            ContentBlock::Text(text) => self.task.push_str(&text.text),
            ContentBlock::ResourceLink(link) => self.link(&link.uri, &link.name, folder)?,
            ContentBlock::Resource(embedded) => match embedded.resource {
                EmbeddedResourceResource::TextResourceContents(text) => {
                    self.embed(&text.uri, text.text.into_bytes(), folder)?;
                }
                EmbeddedResourceResource::BlobResourceContents(blob) => {
                    let bytes = decoded(&blob.blob, &blob.uri)?;
                    self.embed(&blob.uri, bytes, folder)?;
                }
                _ => return Err(AcpFault::of_request("the prompt embeds a resource of an unknown kind")),
            },
            ContentBlock::Image(image) => {
                let count = self.attachments.iter().filter(|given| given.image.is_some()).count();
                let name = format!("picture {}", count + 1);
                let name = image.uri.as_deref().map_or(name, |uri| place(uri, folder).0);
                let bytes = decoded(&image.data, &name)?;
                self.attachments.push(attached(&name, bytes)?);
            }
            ContentBlock::Audio(_) => {
                return Err(AcpFault::of_request("rawko takes no sound: give text, files or pictures"));
            }
            _ => return Err(AcpFault::of_request("the prompt has content of an unknown kind")),
        }
        Ok(())
    }

    /// A file or an address that the user points to. A file is given whole; what is no text and no picture is only named.
    fn link(&mut self, uri: &str, name: &str, folder: &Path) -> Result<(), AcpFault> {
        let (shown, path) = place(uri, folder);
        let mention = if path.is_some() { format!("`{shown}`") } else { format!("{name} ({uri})") };
        self.task.push_str(&mention);
        let Some(path) = path.filter(|path| !path.is_dir()) else { return Ok(()) };
        let bytes = content(&path, &shown)?;
        if let Ok(attachment) = attachment(&shown, bytes) {
            self.attachments.push(attachment);
        }
        Ok(())
    }

    fn embed(&mut self, uri: &str, bytes: Vec<u8>, folder: &Path) -> Result<(), AcpFault> {
        let (shown, _) = place(uri, folder);
        self.task.push_str(&format!("`{shown}`"));
        self.attachments.push(attached(&shown, bytes)?);
        Ok(())
    }
}

/// What a resource is called, and where it is if it is a file: `file:///p/src/a.rs#L3` is `src/a.rs#L3` in `/p`.
fn place(uri: &str, folder: &Path) -> (String, Option<PathBuf>) {
    let Some(rest) = uri.strip_prefix("file://") else { return (uri.to_owned(), None) };
    let (path, part) = rest.split_at(rest.find(['#', '?']).unwrap_or(rest.len()));
    let path = percent_decode_str(path).decode_utf8_lossy().into_owned();
    let path = PathBuf::from(path);
    let inside = path.strip_prefix(folder).unwrap_or(&path);
    let inside = if inside.as_os_str().is_empty() { Path::new(".") } else { inside };
    let fragment = part.find('#').and_then(|at| part.get(at..)).unwrap_or_default();
    (format!("{}{fragment}", inside.display()), path.is_absolute().then_some(path))
}

/// The content of a regular file.
fn content(path: &Path, shown: &str) -> Result<Vec<u8>, AcpFault> {
    let shown = truncate(shown, NAME_CHARS);
    let wrong = |error: std::io::Error| AcpFault::of_request(format!("cannot read `{shown}`: {error}"));
    if !path.metadata().map_err(wrong)?.is_file() {
        return Err(AcpFault::of_request(format!("`{shown}` is no regular file")));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(wrong)?;
    file.take(LONGEST_FILE + 1).read_to_end(&mut bytes).map_err(wrong)?;
    if bytes.len() as u64 > LONGEST_FILE {
        return Err(AcpFault::of_request(format!(
            "`{shown}` is longer than {} MiB",
            LONGEST_FILE / 1024 / 1024
        ))
        .with_hint(Some("name it in the text: agents can read a part of it")));
    }
    Ok(bytes)
}

fn decoded(text: &str, name: &str) -> Result<Vec<u8>, AcpFault> {
    STANDARD.decode(text.trim()).map_err(|error| {
        AcpFault::of_request(format!("`{}` is not valid base64: {error}", truncate(name, NAME_CHARS)))
    })
}

fn attached(name: &str, bytes: Vec<u8>) -> Result<Attachment, AcpFault> {
    attachment(name, bytes).map_err(|error| {
        AcpFault::of_request(error.to_string())
            .with_hint(Some("give text, or a PNG, JPEG, GIF or WebP picture"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(blocks: Value, folder: &Path) -> Result<PromptInput, AcpFault> {
        PromptInput::read(serde_json::from_value(blocks).unwrap(), folder)
    }

    #[test]
    fn files_are_given_and_named_in_the_task() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a b.txt");
        std::fs::write(&file, "the content\n").unwrap();
        std::fs::write(folder.path().join("data.bin"), b"\0\x01").unwrap();
        let at = |name: &str| format!("file://{}/{name}", folder.path().display());
        let input = read(
            json!([
                {"type": "text", "text": "Shorten "},
                {"type": "resource_link", "name": "a b.txt", "uri": at("a%20b.txt#L1:2")},
                {"type": "text", "text": " and "},
                {"type": "resource_link", "name": "data", "uri": at("data.bin")},
                {"type": "resource_link", "name": "here", "uri": at("")},
                {"type": "resource_link", "name": "docs", "uri": "https://example.com/"},
                {"type": "resource", "resource": {"uri": at("unsaved.rs"), "text": "fn main() {}"}},
                {"type": "resource", "resource": {"uri": "zed:///selection", "blob": "YWJj"}},
            ]),
            folder.path(),
        );
        let input = input.unwrap();
        assert!(input.task.starts_with("Shorten `a b.txt#L1:2` and `data.bin`"), "{}", input.task);
        assert!(input.task.contains("docs (https://example.com/)"), "{}", input.task);
        let given: Vec<_> = input.attachments.iter().map(|it| (it.name.as_str(), it.text.as_str())).collect();
        assert_eq!(
            given,
            [("a b.txt#L1:2", "the content"), ("unsaved.rs", "fn main() {}"), ("zed:///selection", "abc")]
        );
    }

    #[track_caller]
    fn check_refused(blocks: Value, part: &str) {
        let fault = read(blocks, Path::new("/nowhere")).unwrap_err();
        assert!(fault.message().contains(part), "{}", fault.message());
    }

    #[test]
    fn what_cannot_be_given_is_an_error_that_names_it() {
        let text = json!({"type": "text", "text": "Do it."});
        check_refused(json!([]), "has no text");
        check_refused(json!([{"type": "text", "text": " \n"}]), "has no text");
        check_refused(json!([{"type": "text", "text": "x".repeat(LONGEST_TASK + 1)}]), "1 MiB");
        check_refused(json!([text, {"type": "audio", "mimeType": "audio/wav", "data": ""}]), "no sound");
        check_refused(
            json!([text, {"type": "image", "mimeType": "image/png", "data": "!"}]),
            "not valid base64",
        );
        check_refused(json!([text, {"type": "image", "mimeType": "image/png", "data": "AAAA"}]), "picture 1");
        let missing = json!({"type": "resource_link", "name": "m", "uri": "file:///nowhere/missing.rs"});
        check_refused(json!([text, missing]), "cannot read `missing.rs`");
        let device = json!({"type": "resource_link", "name": "m", "uri": "file:///dev/zero"});
        check_refused(json!([text, device]), "no regular file");
        let embedded = json!({"type": "resource", "resource": {"uri": "a:b", "text": "x"}});
        let mut many = vec![text];
        many.resize(MOST + 2, embedded);
        check_refused(json!(many), "21 files");
    }
}
