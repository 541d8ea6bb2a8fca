//! `rawko arbiter`: evaluates the arbiter on labelled situations.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use rawko::{EvaluationMode, EvaluationOptions, EvaluationReport, FailedAnswer, Share, WrongAnswer};
use rawko_core::arbiter::{Situation, parse_situations};
use rawko_core::setup::ArbiterMode;

use crate::config_args::amount;
use crate::console::OutputArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Paint, Rows, about, clean_line, cost, duration, tokens};
use crate::runtime::block_on;
use crate::signals::until_stopped;
use crate::workspace::Workspace;

/// Maximum bytes of a file of situations: some ten thousand of them.
const LONGEST_FILE: u64 = 256 * 1024 * 1024;
/// Maximum bytes of a prompt template.
const LONGEST_TEMPLATE: u64 = 1024 * 1024;
/// Maximum number of errors shown for a file.
const MOST_ERRORS: usize = 20;

/// Subcommands of `rawko arbiter`.
#[derive(Debug, Subcommand)]
pub(crate) enum ArbiterCommand {
    /// Evaluate the arbiter on labelled situations: accuracy, cost, latency
    Eval(ArbiterEvalArgs),
}

/// Options of `rawko arbiter eval`.
#[derive(Debug, Args)]
pub(crate) struct ArbiterEvalArgs {
    /// The situations, one JSON object a line; `-` for standard input
    file: PathBuf,
    /// Who decides; by default `arbiter.mode` of the configuration
    #[arg(long, value_enum)]
    mode: Option<EvalMode>,
    /// Use this provider
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// Use this model
    #[arg(long)]
    model: Option<String>,
    /// Use arbiter-select.md and arbiter-evaluate.md from this folder, if it has them
    #[arg(long, value_name = "DIR")]
    prompts: Option<PathBuf>,
    /// Evaluate each situation this many times
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Evaluate only the first N situations
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Maximum cost of all model calls together, in US dollars
    #[arg(long, value_name = "USD", value_parser = amount)]
    max_cost: Option<f64>,
    /// Number of model calls at the same time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    concurrency: u8,
    /// Exit with 1 if the share of acceptable decisions is lower, like 0.9
    #[arg(long, value_name = "SHARE", value_parser = share)]
    min_accuracy: Option<f64>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Who decides.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum EvalMode {
    /// A model; the fallback rules if it gives no usable answer
    Llm,
    /// The rules where they are certain, otherwise a model
    Hybrid,
    /// The rules; the fallback rules where they do not decide
    Rules,
    /// Only the fallback rules
    Fallback,
}

impl EvalMode {
    fn of_sdk(self) -> EvaluationMode {
        match self {
            Self::Llm => EvaluationMode::Arbiter(ArbiterMode::Llm),
            Self::Hybrid => EvaluationMode::Arbiter(ArbiterMode::Hybrid),
            Self::Rules => EvaluationMode::Arbiter(ArbiterMode::Rules),
            Self::Fallback => EvaluationMode::Fallback,
        }
    }
}

/// Runs the subcommand.
pub(crate) fn run(workspace: &Workspace, action: &ArbiterCommand) -> Result<Exit, Failure> {
    match action {
        ArbiterCommand::Eval(evaluation) => eval(workspace, evaluation),
    }
}

fn eval(workspace: &Workspace, arguments: &ArbiterEvalArgs) -> Result<Exit, Failure> {
    let mut situations = situations(&arguments.file)?;
    if let Some(limit) = arguments.limit {
        situations.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    }
    let options = options(arguments)?;
    // Without a model nothing in the configuration is acted on, so trust is not needed.
    let rawko = match arguments.mode.map(EvalMode::of_sdk) {
        Some(mode) if !mode.asks() => workspace.inspect()?,
        Some(_) | None => workspace.open()?,
    };
    let evaluation = block_on(until_stopped(rawko.evaluate(&situations, &options)))?;
    let evaluation = evaluation.ok_or_else(Failure::interrupted)??;
    if let Some(error) = evaluation.broken() {
        let exit = match Exit::of_error(error) {
            Exit::Usage => Exit::Usage,
            _ => Exit::Provider,
        };
        let name = evaluation.model.as_ref().map_or("", |model| &model.provider);
        return Err(Failure::new(exit, format!("provider `{name}`: {} ({})", error.message, error.code))
            .with_hint("`rawko providers check` shows more; --mode rules asks no model"));
    }
    let report = evaluation.report(&situations);
    workspace.console.output(arguments.output.json, &report, |paint| text(&report, paint))?;
    let accuracy = report.accuracy.ratio();
    match arguments.min_accuracy {
        Some(least) if accuracy < least => Ok(Exit::Failed),
        Some(_) | None => Ok(Exit::Success),
    }
}

fn options(arguments: &ArbiterEvalArgs) -> Result<EvaluationOptions, Failure> {
    let template = |name: &str| -> Result<Option<String>, Failure> {
        let Some(folder) = &arguments.prompts else { return Ok(None) };
        let path = folder.join(name);
        if path.exists() { text_of(&path, LONGEST_TEMPLATE).map(Some) } else { Ok(None) }
    };
    let (select, evaluate) = (template("arbiter-select.md")?, template("arbiter-evaluate.md")?);
    if let Some(folder) = arguments.prompts.as_ref().filter(|_| select.is_none() && evaluate.is_none()) {
        let message = format!("{} has neither arbiter-select.md nor arbiter-evaluate.md", folder.display());
        return Err(Failure::usage(message).with_hint("name the folder that holds your prompts"));
    }
    Ok(EvaluationOptions {
        mode: arguments.mode.map(EvalMode::of_sdk),
        provider: arguments.provider.clone(),
        model: arguments.model.clone(),
        select_template: select,
        evaluate_template: evaluate,
        repeat: arguments.repeat,
        concurrency: usize::from(arguments.concurrency),
        max_cost_usd: arguments.max_cost,
    })
}

fn situations(file: &Path) -> Result<Vec<Situation>, Failure> {
    let text = text_of(file, LONGEST_FILE)?;
    parse_situations(&text).map_err(|errors| {
        let mut lines: Vec<String> = errors.iter().take(MOST_ERRORS).map(ToString::to_string).collect();
        if errors.len() > MOST_ERRORS {
            lines.push(format!("and {} more", errors.len() - MOST_ERRORS));
        }
        Failure::usage(format!("{}: {}", file.display(), lines.join("\n")))
            .with_hint("docs/arbiter.md describes the format; `rawko sessions export --situations` writes it")
    })
}

fn text_of(file: &Path, most: u64) -> Result<String, Failure> {
    let wrong = |what: String| Failure::usage(format!("cannot read {}: {what}", file.display()));
    let source: Box<dyn std::io::Read> = if file == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(file).map_err(|error| wrong(error.to_string()))?)
    };
    let mut bytes = Vec::new();
    source.take(most + 1).read_to_end(&mut bytes).map_err(|error| wrong(error.to_string()))?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > most {
        return Err(wrong(format!("it has more than {most} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| wrong("it is not UTF-8".to_owned()))
}

fn share(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("write a share from 0 to 1, like 0.9".to_owned()),
    }
}

fn text(report: &EvaluationReport, paint: Paint) -> String {
    let mut out = String::new();
    for answer in &report.wrong {
        out.push_str(&wrong(answer, paint));
    }
    for answer in &report.failed {
        out.push_str(&failed(answer, paint));
    }
    if !out.is_empty() {
        out.push('\n');
    }
    let by = match (&report.provider, &report.model) {
        (Some(provider), Some(model)) => format!(", {} ({})", clean_line(model), clean_line(provider)),
        _ => String::new(),
    };
    out.push_str(&format!("mode {}{by}: {} situations\n\n", report.mode, report.situations));
    let mut shares = vec![("all".to_owned(), report.accuracy)];
    shares.extend(report.by_point.iter().map(|(point, share)| ((*point).to_owned(), *share)));
    shares.extend(report.by_kind.iter().map(|(kind, share)| (format!("wanted {kind}"), *share)));
    shares.extend(report.by_set.iter().map(|(set, share)| (format!("set {set}"), *share)));
    shares.extend(report.by_source.iter().map(|(source, share)| (format!("decided by {source}"), *share)));
    out.push_str(&Rows::new(paint, &shares).table(&[
        ("", &|(name, _)| name.clone()),
        ("ACCEPTABLE", &|(_, share)| share.right.to_string()),
        ("OF", &|(_, share)| share.of.to_string()),
        ("SHARE", &|(_, share)| format!("{:.1} %", share.ratio() * 100.0)),
    ]));
    out.push('\n');
    if report.repaired > 0 {
        out.push_str(&format!(
            "{} answers of the model were usable at the second attempt\n",
            report.repaired
        ));
    }
    let mut agreement = |share: Option<Share>, what: &str| {
        if let Some(share) = share {
            out.push_str(&format!("{} of {} {what}\n", share.right, share.of));
        }
    };
    agreement(report.agreement.repeats, "situations were decided the same way each time");
    agreement(report.agreement.recorded, "decisions match the recorded ones");
    if report.not_tried > 0 {
        let line = format!(
            "{} questions were not asked: the budget was used up, or the provider refuses them",
            report.not_tried
        );
        out.push_str(&format!("{}\n", paint.warning(&line)));
    }
    if report.provider.is_some() {
        out.push_str(&format!(
            "tokens {}{} in, {} out; {}; latency p50 {}, p95 {}\n",
            about(&report.usage),
            tokens(report.usage.prompt_tokens()),
            tokens(report.usage.output_tokens),
            cost(report.cost_usd),
            duration(report.latency_ms.p50),
            duration(report.latency_ms.p95),
        ));
    }
    out
}

fn wrong(answer: &WrongAnswer, paint: Paint) -> String {
    let by = answer.rule.map_or_else(|| answer.source.to_owned(), |rule| format!("rule {rule}"));
    let mut text = format!(
        "{} {}: {} ({by}), expected {}\n",
        paint.error("wrong"),
        clean_line(&answer.id),
        clean_line(&answer.got),
        clean_line(&answer.expected.join(" or ")),
    );
    if !answer.reason.is_empty() {
        text.push_str(&format!("      reason: {}\n", clean_line(&answer.reason)));
    }
    if let Some(why) = &answer.why {
        text.push_str(&format!("      label:  {}\n", clean_line(why)));
    }
    text
}

fn failed(answer: &FailedAnswer, paint: Paint) -> String {
    let FailedAnswer { id, error, .. } = answer;
    format!(
        "{} {}: {} ({})\n",
        paint.error("no answer"),
        clean_line(id),
        clean_line(&error.message),
        error.code
    )
}
