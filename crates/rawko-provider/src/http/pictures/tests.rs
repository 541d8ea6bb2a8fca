use rawko_core::message::{Role, ToolCall};
use serde_json::json;

use super::*;

fn picture(number: u32, width: u32) -> Image {
    // Different bytes after the end, so that no two pictures are the same.
    let mut bytes = testkit::png(width, 1);
    bytes.extend(number.to_be_bytes());
    Image { media_type: "image/png".into(), data: testkit::in_base64(&bytes) }
}

/// A call of `Read` and its result, with these pictures.
fn turn(id: &str, path: &str, images: Vec<Image>) -> [Arc<Message>; 2] {
    let input = json!({"file_path": path});
    let call = ToolCall { id: id.into(), name: "Read".into(), input, invalid_input: None, withheld: None };
    let result =
        Content::ToolResult { tool_use_id: id.into(), content: format!("`{path}`"), is_error: false, images };
    [
        Arc::new(Message { role: Role::Assistant, content: vec![Content::ToolUse(call)] }),
        Arc::new(Message { role: Role::User, content: vec![result] }),
    ]
}

fn conversation(count: u32, width: impl Fn(u32) -> u32) -> Vec<Arc<Message>> {
    let turns =
        (0..count).flat_map(|n| turn(&format!("id{n}"), &format!("{n}.png"), vec![picture(n, width(n))]));
    turns.collect()
}

/// The results in `messages` that contain a picture.
fn shown(messages: &[Arc<Message>]) -> Vec<usize> {
    let results = messages.iter().filter(|message| message.role == Role::User).enumerate();
    let has_picture = |message: &Message| {
        message
            .content
            .iter()
            .any(|block| matches!(block, Content::ToolResult { images, .. } if !images.is_empty()))
    };
    results.filter(|(_, message)| has_picture(message)).map(|(at, _)| at).collect()
}

#[track_caller]
fn check(
    count: u32,
    width: impl Fn(u32) -> u32,
    limits: &PictureLimits,
    expected: impl IntoIterator<Item = usize>,
) {
    let messages = conversation(count, width);
    let mut pictures = ConversationPictures::default();
    assert_eq!(
        shown(&pictures.show(&messages, limits)),
        expected.into_iter().collect::<Vec<_>>(),
        "{count} pictures"
    );
}

#[test]
fn a_request_shows_as_many_pictures_as_services_take_and_the_latest() {
    let none = PictureLimits::default();
    let few = |most| PictureLimits { most: Some(most), ..PictureLimits::default() };
    check(3, |_| 8, &none, 0..3);
    check(100, |_| 8, &none, 0..100);
    check(101, |_| 8, &none, 51..101);
    check(151, |_| 8, &none, 51..151);
    check(152, |_| 8, &none, 102..152);
    check(9, |_| 8, &few(5), 6..9);
    check(3, |_| 8, &few(1), 2..3);
    check(3, |_| 8, &few(0), []);
    // The third is too large for a request of more than twenty.
    check(20, |n| if n == 2 { 2_001 } else { 8 }, &none, 0..20);
    check(21, |n| if n == 2 { 2_001 } else { 8 }, &none, (0..21).filter(|n| *n != 2));
    check(21, |_| 2_000, &none, 0..21);
}

#[test]
fn many_bytes_of_pictures_do_not_make_a_request_too_large() {
    let heavy = |n: u32| {
        let image = Image { media_type: "image/png".into(), data: format!("{n}{}", "A".repeat(4_000_000)) };
        turn(&format!("id{n}"), "x.png", vec![image])
    };
    let messages: Vec<_> = (0..5).flat_map(heavy).collect();
    let mut pictures = ConversationPictures::default();
    assert_eq!(shown(&pictures.show(&messages, &PictureLimits::default())), [3, 4]);
    assert_eq!(pictures.weight(), (2, 8_000_002));
}

#[test]
fn what_a_request_shows_changes_seldom_as_the_conversation_grows() {
    let messages = conversation(160, |_| 8);
    let mut pictures = ConversationPictures::default();
    let mut before: Vec<Arc<Message>> = Vec::new();
    let mut changes = 0;
    for end in (2..=messages.len()).step_by(2) {
        let now = pictures.show(&messages[..end], &PictureLimits::default()).into_owned();
        changes += usize::from(!before.iter().zip(&now).all(|(a, b)| Arc::ptr_eq(a, b)));
        before = now;
    }
    assert_eq!(changes, 2, "at the pictures 101 and 152");
    // A new session sends the same conversation in the same form.
    let anew = ConversationPictures::default().show(&messages, &PictureLimits::default()).into_owned();
    assert_eq!(anew, before);
}

#[track_caller]
fn check_blamed(named: Option<NamedPicture>, accepted: usize, expected: &str) {
    let mut messages = conversation(2, |_| 8);
    messages.extend(turn("pair", "2.png", vec![picture(2, 8), picture(3, 8)]));
    let mut pictures = ConversationPictures::default();
    pictures.show(&messages[..accepted], &PictureLimits::default());
    pictures.accept();
    pictures.show(&messages, &PictureLimits::default());
    let (limits, names) = pictures.learn("Could not process image", |_| named).expect("limits");
    assert_eq!(names, expected);
    let after = pictures.show(&messages, &limits).into_owned();
    let lines: Vec<String> = after
        .iter()
        .flat_map(|message| &message.content)
        .filter_map(|block| match block {
            Content::ToolResult { content, .. } => content.split_once('\n').map(|(_, line)| line.to_owned()),
            _ => None,
        })
        .collect();
    let line = "[A picture is left out here: the model's server refused it (Could not process image).]";
    assert_eq!(lines.join("\n").matches(line).count(), expected.split(", ").count(), "{lines:?}");
}

#[test]
fn the_picture_that_is_refused_is_left_out_or_else_the_new_ones() {
    let named = |message, picture| Some(NamedPicture { message, picture });
    check_blamed(named(1, Some((0, 0))), 4, "`0.png` (Read id0)");
    check_blamed(named(5, Some((0, 1))), 4, "`2.png` (Read pair)");
    check_blamed(named(5, None), 4, "`2.png` (Read pair), `2.png` (Read pair)");
    check_blamed(None, 4, "`2.png` (Read pair), `2.png` (Read pair)");
    check_blamed(None, 2, "`1.png` (Read id1), `2.png` (Read pair), `2.png` (Read pair)");
    // All were accepted before, so any of them may be meant.
    check_blamed(None, 6, "`0.png` (Read id0), `1.png` (Read id1), `2.png` (Read pair), `2.png` (Read pair)");
    // There is no picture at this position.
    check_blamed(named(0, None), 4, "`2.png` (Read pair), `2.png` (Read pair)");
}

#[test]
fn refusals_about_other_things_and_requests_without_pictures_teach_nothing() {
    let mut pictures = ConversationPictures::default();
    pictures.show(&conversation(1, |_| 8), &PictureLimits::default());
    assert_eq!(pictures.learn("max_tokens: must be at least 1", |_| None), None);
    pictures.show(&[Arc::new(Message::user("hi"))], &PictureLimits::default());
    assert_eq!(pictures.learn("Could not process image", |_| None), None);
}
