//! The figures, as tables and as JSON.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::micro::Length;
use crate::process::{Sample, machine};
use crate::sandbox;
use crate::server::{Log, Request};
use crate::trial::Measured;

/// Turns that are reported together.
const BUCKET: usize = 50;

/// Everything that was measured.
pub(crate) struct Report {
    /// From the start to the first request, and to the end.
    pub(crate) starts: Vec<(Duration, Duration)>,
    /// The long runs.
    pub(crate) runs: Vec<Measured>,
    /// A command in the sandbox and without.
    pub(crate) sandbox: Option<sandbox::Measured>,
    /// Histories of several lengths.
    pub(crate) lengths: Vec<Length>,
}

/// Some consecutive turns.
struct Bucket {
    from: usize,
    to: usize,
    wall: f64,
    wall_p90: f64,
    cpu: f64,
    floor: f64,
    working_floor: f64,
    request_kb: f64,
}

impl Report {
    /// Nothing measured yet.
    pub(crate) fn new() -> Self {
        Self { starts: Vec::new(), runs: Vec::new(), sandbox: None, lengths: Vec::new() }
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("machine: {}\n", machine());
        if !self.starts.is_empty() {
            let (first, total) = self.start_figures();
            let count = self.starts.len();
            let _ = writeln!(
                text,
                "\nstart ({count} times, median): first request after {first:.1} ms, shortest run {total:.1} ms"
            );
        }
        for run in &self.runs {
            let turns = run.log.requests.len() - 2;
            let _ = writeln!(
                text,
                "\n{} × {turns} turns: from an answer to the last byte of the next request, ms",
                run.mode.name()
            );
            text.push_str("     turns   median      p90      cpu    floor     +work   request kB\n");
            for b in buckets(run) {
                let turns = format!("{}–{}", b.from, b.to);
                let _ = writeln!(
                    text,
                    "{turns:>10} {:>8.2} {:>8.2} {:>8.2} {:>8.2} {:>9.2} {:>12.0}",
                    b.wall, b.wall_p90, b.cpu, b.floor, b.working_floor, b.request_kb
                );
            }
            let last = last_sample(&run.log);
            let sent: usize = run.log.requests.iter().map(|request| request.bytes).sum();
            let _ = writeln!(
                text,
                "whole run:        {:>9.2} s, {:.2} s of it on a processor",
                run.total.as_secs_f64(),
                ns(last.cpu_ns) / 1e3
            );
            let _ = writeln!(
                text,
                "memory:           {:>9.1} MB anonymous at most, {:.1} MB resident at most",
                mb(anonymous_peak(&run.log) * 1024),
                mb(last.peak_kb * 1024)
            );
            let _ = writeln!(
                text,
                "journal:          {:>9.2} MB, {:.0} bytes a turn",
                mb(run.journal_bytes),
                per_turn(run.journal_bytes, turns)
            );
            let _ = writeln!(
                text,
                "written:          {:>9.2} MB in all, {:.2} MB of it requests; {:.2} MB towards the disk",
                mb(last.written),
                sent as f64 / 1e6,
                mb(last.to_disk)
            );
        }
        if let Some(measured) = &self.sandbox {
            let rounds = measured.bare.len();
            let _ = writeln!(
                text,
                "\n`bash -c true` × {rounds}, ms\n                                  median      p90"
            );
            for (name, times) in commands(measured) {
                let (median, p90) = (quantile(times.clone(), 0.5), quantile(times.clone(), 0.9));
                let _ = writeln!(text, "{name:<30} {median:>9.2} {p90:>8.2}");
            }
        }
        for Length { entries, prompts_us, append_us } in &self.lengths {
            let _ = writeln!(
                text,
                "\nafter {entries} executions: {prompts_us:.0} µs for both of the arbiter's prompts; \
                 {append_us:.1} µs for an append of 2 kB to the journal"
            );
        }
        text
    }

    /// For programs.
    pub(crate) fn json(&self) -> Value {
        let (first, total) = self.start_figures();
        let runs = self.runs.iter().map(|run| {
            let last = last_sample(&run.log);
            let buckets = buckets(run).map(|b| {
                json!({"from": b.from, "to": b.to, "wallMs": b.wall, "wallP90Ms": b.wall_p90, "cpuMs": b.cpu, "floorMs": b.floor,
                    "workingFloorMs": b.working_floor, "requestKb": b.request_kb})
            });
            json!({"mode": run.mode.name(), "turns": run.log.requests.len() - 2, "buckets": buckets.collect::<Vec<_>>(),
                "totalMs": run.total.as_secs_f64() * 1e3, "cpuMs": ns(last.cpu_ns), "anonymousKb": anonymous_peak(&run.log),
                "residentKb": last.peak_kb, "journalBytes": run.journal_bytes, "writtenBytes": last.written,
                "requestBytes": run.log.requests.iter().map(|request| request.bytes).sum::<usize>(), "diskBytes": last.to_disk})
        });
        let lengths = self.lengths.iter().map(|length| {
            let Length { entries, prompts_us, append_us } = length;
            json!({"entries": entries, "promptsUs": prompts_us, "appendUs": append_us})
        });
        let commands = self.sandbox.iter().flat_map(commands).map(|(name, times)| {
            json!({"what": name, "rounds": times.len(), "medianMs": quantile(times.clone(), 0.5), "p90Ms": quantile(times.clone(), 0.9)})
        });
        let sandbox = commands.collect::<Vec<_>>();
        json!({"machine": machine(), "sandbox": sandbox, "start": {"count": self.starts.len(), "firstRequestMs": first, "shortestRunMs": total}, "runs": runs.collect::<Vec<_>>(), "lengths": lengths.collect::<Vec<_>>()})
    }

    fn start_figures(&self) -> (f64, f64) {
        let ms = |which: fn(&(Duration, Duration)) -> Duration| {
            quantile(self.starts.iter().map(|start| which(start).as_secs_f64() * 1e3).collect(), 0.5)
        };
        (ms(|start| start.0), ms(|start| start.1))
    }
}

/// The kinds of command that were measured, each with its times.
fn commands(measured: &sandbox::Measured) -> Vec<(&'static str, &Vec<f64>)> {
    let mut commands = vec![
        ("bash", &measured.bare),
        ("the tool Bash", &measured.call),
        ("the same, confined", &measured.confined),
        ("the same, with a denied pattern", &measured.denying),
    ];
    commands.extend(measured.bubblewrap.as_ref().map(|times| ("bash in bubblewrap", times)));
    commands
}

fn buckets(run: &Measured) -> impl Iterator<Item = Bucket> + '_ {
    // Between the requests of the one conversation; the arbiter's last question is another.
    let walls = gaps(&run.log);
    let count = walls.len() - 1;
    (0..count).step_by(BUCKET).map(move |from| {
        let to = (from + BUCKET).min(count);
        let median = |log: &Log| quantile(gaps(log)[from..to.min(gaps(log).len())].to_vec(), 0.5);
        let requests = &run.log.requests[from..=to];
        let cpu = |request: &Request| request.sample.unwrap_or_default().cpu_ns;
        let spent = requests.last().map_or(0, cpu) - requests.first().map_or(0, cpu);
        let bytes: usize = requests.iter().map(|request| request.bytes).sum();
        Bucket {
            from: from + 1,
            to,
            wall: quantile(walls[from..to].to_vec(), 0.5),
            wall_p90: quantile(walls[from..to].to_vec(), 0.9),
            cpu: ns(spent) / (to - from) as f64,
            floor: median(&run.floor),
            working_floor: median(&run.working_floor),
            request_kb: bytes as f64 / requests.len() as f64 / 1e3,
        }
    })
}

/// Milliseconds from each answer to the last byte of the next request.
fn gaps(log: &Log) -> Vec<f64> {
    let pairs = log.requests.windows(2);
    pairs
        .map(|pair| pair[1].arrived.saturating_duration_since(pair[0].answered).as_secs_f64() * 1e3)
        .collect()
}

fn last_sample(log: &Log) -> Sample {
    log.requests.iter().rev().find_map(|request| request.sample).unwrap_or_default()
}

fn anonymous_peak(log: &Log) -> u64 {
    log.requests
        .iter()
        .filter_map(|request| request.sample)
        .map(|sample| sample.anonymous_kb)
        .max()
        .unwrap_or(0)
}

fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len().saturating_sub(1) as f64 * share).round() as usize;
    values.get(at).copied().unwrap_or(f64::NAN)
}

fn ns(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

fn per_turn(bytes: u64, turns: usize) -> f64 {
    bytes as f64 / turns.max(1) as f64
}
