//! The answer to a call, as text and pictures.

use rmcp::model::{
    CallToolResult, ContentBlock, GetPromptResult, ReadResourceResult, ResourceContents, Role,
};
use serde_json::Value;

/// A server's answer to a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// Everything that is text. Not bounded here, except by the size of a message.
    pub text: String,
    /// The pictures.
    pub pictures: Vec<Picture>,
    /// Whether the server says that the call failed.
    pub is_error: bool,
}

/// A picture, as the server sent it: nothing of it was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// Its data in base64.
    pub data: String,
    /// What the server says that it is, e.g. `image/png`.
    pub media_type: String,
}

impl Answer {
    pub(crate) fn of_call(result: CallToolResult) -> Self {
        let mut answer = Self { is_error: result.is_error.unwrap_or(false), ..Self::default() };
        answer.blocks(result.content);
        // A server that gives structure should give it as text too. Some do not.
        if let Some(structure) = result.structured_content
            && answer.text.is_empty()
        {
            answer.line(&structure.to_string());
        }
        answer
    }

    pub(crate) fn of_resource(result: ReadResourceResult) -> Self {
        let mut answer = Self::default();
        for contents in result.contents {
            answer.resource(contents);
        }
        answer
    }

    pub(crate) fn of_prompt(result: GetPromptResult) -> Self {
        let mut answer = Self::default();
        for message in result.messages {
            answer.line(match message.role {
                Role::Assistant => "[assistant]",
                _ => "[user]",
            });
            answer.blocks(vec![message.content]);
        }
        answer
    }

    fn blocks(&mut self, blocks: Vec<ContentBlock>) {
        for block in blocks {
            match block {
                ContentBlock::Text(text) => self.line(&text.text),
                ContentBlock::Image(image) => {
                    self.pictures.push(Picture { data: image.data, media_type: image.mime_type });
                }
                ContentBlock::Audio(audio) => {
                    self.line(&format!("[audio of the type {}, not shown]", audio.mime_type));
                }
                ContentBlock::Resource(embedded) => self.resource(embedded.resource),
                ContentBlock::ResourceLink(link) => {
                    self.line(&format!("[resource {}: {}]", link.name, link.uri));
                }
                _ => self.line("[content of a kind that rawko does not know, not shown]"),
            }
        }
    }

    fn resource(&mut self, contents: ResourceContents) {
        match contents {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                self.line(&format!("[resource {uri}]"));
                self.line(&text);
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let media_type = mime_type.unwrap_or_default();
                if media_type.starts_with("image/") {
                    self.line(&format!("[resource {uri}: a picture]"));
                    self.pictures.push(Picture { data: blob, media_type });
                } else {
                    self.line(&format!("[resource {uri}: {} bytes in base64, not shown]", blob.len()));
                }
            }
            _ => self.line("[a resource of a kind that rawko does not know, not shown]"),
        }
    }

    fn line(&mut self, text: &str) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        self.text.push_str(text);
    }
}

/// A result that came by way of a task.
pub(crate) fn of_task(result: serde_json::Map<String, Value>) -> Result<Answer, serde_json::Error> {
    serde_json::from_value::<CallToolResult>(Value::Object(result)).map(Answer::of_call)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(result: Value, text: &str, pictures: usize, is_error: bool) {
        let answer = Answer::of_call(serde_json::from_value(result).unwrap());
        assert_eq!(
            (answer.text.as_str(), answer.pictures.len(), answer.is_error),
            (text, pictures, is_error)
        );
    }

    #[test]
    fn everything_that_is_text_is_kept_and_the_rest_is_named() {
        check(
            json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
            "a\nb",
            0,
            false,
        );
        check(json!({"content": [], "structuredContent": {"a": 1}}), r#"{"a":1}"#, 0, false);
        check(
            json!({"content": [{"type": "text", "text": "a"}], "structuredContent": {"a": 1}, "isError": true}),
            "a",
            0,
            true,
        );
        check(json!({"content": [{"type": "image", "data": "AA==", "mimeType": "image/png"}]}), "", 1, false);
        check(
            json!({"content": [
                {"type": "audio", "data": "AA==", "mimeType": "audio/wav"},
                {"type": "resource", "resource": {"uri": "x://y", "text": "t"}},
                {"type": "resource_link", "uri": "x://z", "name": "z"},
            ]}),
            "[audio of the type audio/wav, not shown]\n[resource x://y]\nt\n[resource z: x://z]",
            0,
            false,
        );
    }
}
