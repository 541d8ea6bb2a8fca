//! Error reports as people see them.

use super::project::TestProject;
use crate::config::Overrides;

/// The whole report for these files, as one snapshot named after the case.
#[track_caller]
fn check(case: &str, files: &[(&str, &str)]) {
    insta::assert_snapshot!(case, TestProject::new(files).report());
}

fn agent(extra: &str) -> String {
    format!("name: helper\nsystemPrompt: Help.\n{extra}")
}

#[test]
fn configuration() {
    for (case, text) in [
        ("unknown_key", "version: 1\nprovder:\n  default: claude\n"),
        ("unknown_nested_key", "constraints:\n  max_iterations: 5\n  maxIteration: 3\n  colour: red\n"),
        ("key_at_the_wrong_place", "maxIterations: 5\n"),
        ("empty_misspelt_key", "constraint:\narbiter:\n"),
        (
            "wrong_types",
            "constraints:\n  maxIterations: many\n  maxCostUsd: true\narbiter: fast\ntools: Read\n",
        ),
        (
            "out_of_range",
            "constraints:\n  maxIterations: 0\n  maxConsecutiveFailures: 99999999999\narbiter:\n  temperature: 3\n",
        ),
        (
            "temperatures_that_are_refused",
            "provider:\n  claude:\n    temperature: 0.7\n  openai:\n    model: gpt-5-mini\n    temperature: 0.2\n  old:\n    type: claude\n    baseUrl: https://api.example.com\n    model: claude-haiku-4-5\n    temperature: 1.5\n  thinking:\n    preset: claude\n    model: claude-sonnet-4-5\n    temperature: 0.5\n    extra: {thinking: {type: enabled, budget_tokens: 2000}}\narbiter:\n  provider: claude\n  temperature: 0.5\n",
        ),
        (
            "thinking_that_a_model_does_not_have",
            "provider:\n  claude:\n    thinking: {budget: 4096}\n  openai:\n    model: gpt-4.1\n    thinking: {effort: high}\n  responses:\n    thinking: {budget: 4096}\n  old:\n    preset: claude\n    model: claude-haiku-4-5\n    maxTokens: 4096\n    thinking: {budget: 4096}\n  both:\n    preset: claude\n    model: claude-haiku-4-5\n    thinking: {budget: 2048}\n    extra: {thinking: {type: disabled}}\n  script:\n    type: scripted\n    script: a.yaml\n    thinking: off\n",
        ),
        (
            "thinking_that_is_none",
            "provider:\n  claude:\n    thinking: {budget: 100}\n  openai:\n    thinking: loud\n",
        ),
        ("bad_duration", "constraints:\n  maxDuration: half an hour\n"),
        ("bad_choice", "arbiter:\n  mode: rule\nmemory:\n  minImportance: hgih\n"),
        ("number_for_text", "arbiter:\n  model: 4.1\nversion: 2\n"),
        ("duplicate_key", "version: 1\narbiter:\n  mode: llm\nversion: 1\n"),
        ("tab", "arbiter:\n\tmode: llm\n"),
        ("not_yaml", "arbiter:\n  mode: [llm\nversion: 1\n"),
        ("colon_in_text", "arbiter:\n  model: claude: the best\n"),
        ("not_a_mapping", "- one\n- two\n"),
        ("observability", "observability:\n  endpoint: localhost:4318\n  protocol: http\n"),
        ("address_of_a_collector", "observability:\n  endpoint: localhost:4318\n"),
        ("verify_of_another_kind", "verify: cargo test\n"),
        ("verify_with_a_slip", "verify:\n  command: [cargo test]\n"),
        ("verify_without_commands", "verify:\n  commands: [cargo test, ' ']\n  timeout: 5m\n"),
        ("verify_with_a_number", "verify: [cargo test, 7]\n"),
        (
            "not_available_providers",
            "provider:\n  default: copilot\n  copilot:\n    baseUrl: https://example.com\n  mine:\n    type: local\n  claude:\n    cli: copilot\n",
        ),
        ("stray_provider_key", "provider:\n  defualt: claude\n  model: gpt-5\n"),
        (
            "provider_settings",
            "provider:\n  mine: {}\n  other:\n    preset: olama\n  third:\n    type: openai\n  fourth:\n    type: scripted\n  fifth:\n    type: claude\n    preset: ollama\n  claude:\n    script: x.yaml\n",
        ),
        (
            "provider_names",
            "provider:\n  default: clade\n  fallback: [openai, nobody]\narbiter:\n  provider: cladue\n",
        ),
        (
            "secrets_are_not_shown",
            "provider:\n  claude:\n    apiKey: sk-canary\n    apiKeyEnv: sk-canary-2\n    baseUrl: https://me:canary@example.com/v1\n",
        ),
        (
            "addresses",
            "provider:\n  claude:\n    baseUrl: example.com\n  openai:\n    baseUrl: https://me:secret@example.com\n",
        ),
        (
            "custom_tools",
            "tools:\n  - name: Read\n    description: d\n    command: [x]\n  - name: my tool\n    description: d\n    command: []\n  - description: d\n    command: [x]\n  - name: T\n    description: d\n    command: [x]\n    inputSchema: {type: object, properties: {a: {type: strin}}}\n  - name: U\n    description: d\n    command: [x]\n    inputSchema: {type: string}\n",
        ),
        (
            "two_tools_of_one_name",
            "tools:\n  - {name: T, description: d, command: [x]}\n  - {name: T, description: d, command: [y]}\n",
        ),
        (
            "permissions",
            "permissions:\n  net: [\"https://example.com/x\"]\n  env: [A=b]\n  run: [cargo test]\n  read: [\"\"]\n",
        ),
        (
            "permissions_with_a_tilde",
            "permissions:\n  read: [., \"~\"]\n  write: [~/src]\n  deny: [~/.x]\n  caches: [~/.cargo/registry]\n",
        ),
        ("agents_section", "agents:\n  directory: ../elsewhere\n  default: devloper\n"),
        ("missing_agents_directory", "agents:\n  directory: my-agents\n"),
        ("prices", "prices:\n  m: {input: -1, output: 2}\n  n: {input: 1}\n"),
        ("escapes_are_not_printed", "\"a\\e[31m\": 1\nb: \u{202e}c\n"),
    ] {
        check(case, &[(".rawko/config.yaml", text)]);
    }
}

#[test]
fn agents() {
    for (case, text) in [
        ("agent_without_prompt", "name: helper\n".to_owned()),
        ("agent_without_anything", String::new()),
        ("agent_unknown_key", agent("whenTouse: x\ntools:\n  allow: [Read]\n")),
        ("agent_bad_name", "name: my helper!\nsystemPrompt: x\n".to_owned()),
        ("agent_called_complete", "name: complete\nsystemPrompt: x\n".to_owned()),
        ("agent_blank_prompt", "name: helper\nsystemPrompt: '  '\n".to_owned()),
        (
            "agent_targets",
            agent(
                "transitions:\n  onSuccess: reviewr\n  onFailure: nobody\n  custom:\n    - condition: c\n      target: Complete\n",
            ),
        ),
        ("agent_tools", agent("tools:\n  allowed: [read, Bahs, mcp__x__y]\n  blocked: [Teleport]\n")),
        (
            "agent_bash_filter",
            agent(
                "tools:\n  bashFilter:\n    allowedCommands: [git log, /bin/ls]\n    blockedPatterns: ['rm (', '', '> ']\n",
            ),
        ),
        ("agent_huge_pattern", agent("tools:\n  bashFilter:\n    blockedPatterns: ['(a{1000}){1000}']\n")),
        ("agent_role", agent("role: reviewer\n")),
        ("agent_memory", agent("memory:\n  minImportance: huge\n  maxInjected: -1\n")),
        ("agent_provider", agent("provider:\n  name: ollma\n")),
        ("agent_thinking", agent("provider:\n  model: claude-opus-5-5\n  thinking: off\n")),
        ("agent_limits", agent("limits:\n  maxIterations: 0\n  timeout: soon\n")),
        ("agent_permissions", agent("permissions:\n  net: [\"http://x/\"]\n  reed: []\n")),
        ("agent_tags", agent("metadata:\n  tags: code\n")),
        ("agent_when_to_use", agent("whenToUse: {a: b}\n")),
    ] {
        check(case, &[(".rawko/agents/helper.yaml", &text)]);
    }
}

#[test]
fn markdown_agents() {
    for (case, text) in [
        ("markdown_without_front_matter", "# Helper\nHelp.\n"),
        ("markdown_without_end", "---\nname: helper\nHelp.\n"),
        ("markdown_without_name", "---\nwhenToUse: x\n---\nHelp.\n"),
        ("markdown_without_prompt", "---\nname: helper\n---\n\n# Helper\n"),
        ("markdown_with_two_prompts", "---\nname: helper\nsystemPrompt: one\n---\ntwo\n"),
        (
            "markdown_bad_yaml",
            "---\nname: helper\nlimits:\n  maxIterations: lots\ntransitions: {onSuccess: nobody\n---\nHelp.\n",
        ),
        ("markdown_places", "---\nname: helper\ntransitions:\n  onSuccess: nobody\n---\nHelp.\n"),
    ] {
        check(case, &[(".rawko/agents/helper.md", text)]);
    }
}

#[test]
fn all_errors_of_all_files_at_once() {
    let project = TestProject::new(&[
        ("user:config.yaml", "arbiter:\n  temprature: 1\n"),
        (
            ".rawko/config.yaml",
            "version: 1\nconstraints:\n  maxIterations: x\nprovider:\n  default: nobody\n",
        ),
        (
            ".rawko/agents/a.yaml",
            "name: a\nsystemPrompt: x\ntransitions:\n  onSuccess: b\n  onFailure: zzz\n",
        ),
        (".rawko/agents/b.yaml", "name: [\n"),
        (".rawko/agents/c.md", "no front matter"),
        (".rawko/agents/d.yml", "name: a\nsystemPrompt: x\n"),
        (".rawko/prompts/arbiter-select.md", " \n"),
    ])
    .env("RAWKO_MAX_ITERATIONS", "lots")
    .env("RAWKO_TIMEOUT", "soon");
    insta::assert_snapshot!("all_errors_of_all_files", project.report());
}

#[test]
fn a_broken_file_does_not_make_others_look_wrong() {
    let agent = "name: a\nsystemPrompt: x\ntools: {allowed: [Mine]}\nprovider: {name: ours}\n";
    let broken = TestProject::new(&[(".rawko/config.yaml", "tools: [\n"), (".rawko/agents/a.yaml", agent)]);
    insta::assert_snapshot!("broken_file_alone", broken.report());
    let half = "provider:\n  ours: {type: openai, baseUrl: 'http://localhost', modle: x}\ntools:\n  - {name: Mine}\n";
    let half = TestProject::new(&[(".rawko/config.yaml", half), (".rawko/agents/a.yaml", agent)]);
    insta::assert_snapshot!("half_broken_file_alone", half.report());
}

#[test]
fn environment_and_flags() {
    let project = TestProject::new(&[])
        .env("RAWKO_PROVIDER", "clade")
        .env("RAWKO_MAX_COST", "-1")
        .env("RAWKO_ARBITER_MODE", "hybird")
        .env("ANTHROPIC_BASE_URL", "nowhere")
        .flags(Overrides { max_iterations: Some(0), max_cost_usd: Some(f64::NAN), ..Overrides::default() });
    insta::assert_snapshot!("environment_and_flags", project.report());
}

#[test]
fn files_that_cannot_be_read() {
    let project = TestProject::new(&[(".rawko/agents/ok.yaml", "name: ok\nsystemPrompt: x\n")]);
    project.write(".rawko/config.yaml", b"version: 1\narbiter:\n  model: \xff\xfe\n");
    project.write(".rawko/agents/utf16.yaml", b"\xff\xfen\0a\0");
    project.write(".rawko/agents/huge.yaml", vec![b'#'; 2 * 1024 * 1024]);
    project.write(".rawko/agents/dir.md/x", b"");
    insta::assert_snapshot!("files_that_cannot_be_read", project.report());
}

#[cfg(unix)]
#[test]
fn what_is_no_file() {
    use std::os::unix::fs::symlink;
    let project =
        TestProject::new(&[(".rawko/agents", "a file"), (".rawko/prompts/arbiter-select.md/x", "")]);
    symlink(project.path().join("nowhere"), project.path().join(".rawko/config.yaml")).expect("a link");
    insta::assert_snapshot!("what_is_no_file", project.report());
    let fifo = TestProject::new(&[(".rawko/memories/x", "")]);
    let path = fifo.path().join(".rawko/config.yaml");
    let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo");
    assert!(made.success());
    insta::assert_snapshot!("a_fifo", fifo.report());
}

#[test]
fn a_bomb_of_aliases() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..10 {
        bomb.push_str(&format!(
            "a{level}: &a{level} [{}]\n",
            vec![format!("*a{}", level - 1); 10].join(", ")
        ));
    }
    check("alias_bomb", &[(".rawko/config.yaml", &bomb)]);
}

#[test]
fn a_missing_config_file() {
    insta::assert_snapshot!("missing_config_file", TestProject::new(&[]).config_file("absent.yaml").report());
}

#[test]
fn errors_as_json() {
    let errors = TestProject::new(&[(".rawko/config.yaml", "provder: 1\n")]).load().expect_err("an error");
    insta::assert_json_snapshot!("errors_as_json", errors);
}

#[test]
fn what_does_not_hold_another_program_is_refused() {
    let project = TestProject::new(&[(
        ".rawko/agents/helper.yaml",
        "name: helper\nsystemPrompt: Help.\nprovider: {model: m}\nlimits: {maxIterations: 3}\n\
         acp:\n  command: ['']\n  key: sk-123\n  env: {API_TOKEN: x}\n",
    )]);
    let report = project.report();
    for words in [
        "an ACP agent needs a command",
        "`API_TOKEN` is no name for a value in a file",
        "`sk-123` is not the name of a variable",
        "`provider` does not hold the program of an ACP agent",
        "`limits.maxIterations` does not hold",
    ] {
        assert!(report.contains(words), "{words} is missing in:\n{report}");
    }
    let sound = "name: helper\nsystemPrompt: Help.\nlimits: {timeout: 1000}\n\
                 acp: {command: [a, b], key: MODEL_KEY, env: {PLAIN: x}, net: [api.example.com]}\n";
    let project = TestProject::new(&[(".rawko/agents/helper.yaml", sound)]);
    assert!(project.loaded().agents["helper"].config.acp.is_some());
}
