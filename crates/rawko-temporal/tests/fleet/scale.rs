//! Many tasks on one machine, while workers are killed at random. Not a part of the suite: `RAWKO_FLEET_SCALE=200` says how
//! many tasks, and the figures are printed (`docs/fleets.md`).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rawko_core::session::{EffectAnswer, Event, Stamped, Status};

use crate::worker::WorkerProcess;
use crate::world::World;
use crate::world::commands;

/// Steps of one task.
const STEPS: usize = 10;

/// Milliseconds from a model's reply to the next tool's result, without the tool's own time.
fn overheads(events: &[Stamped]) -> Vec<u64> {
    let mut replied = None;
    let mut all = Vec::new();
    for stamped in events {
        match &stamped.event {
            Event::Answered { answer: EffectAnswer::ModelReplied { .. }, .. } => replied = Some(stamped.at),
            Event::Answered { answer: EffectAnswer::ToolFinished { outcome }, .. } => {
                if let Some(replied) = replied.take() {
                    all.push(stamped.at.since(replied).saturating_sub(outcome.duration_ms));
                }
            }
            _ => replied = None,
        }
    }
    all
}

fn part(sorted: &[u64], part: f64) -> u64 {
    sorted.get(((sorted.len() as f64) * part) as usize).copied().unwrap_or_default()
}

/// The most memory that a process has had, in MB.
fn memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default().to_owned();
    line.split_whitespace().next().and_then(|kilobytes| kilobytes.parse::<u64>().ok()).unwrap_or_default()
        / 1024
}

fn world(tasks: usize, kill: bool) -> Option<(World, Vec<WorkerProcess>)> {
    let list: Vec<String> = (0..STEPS)
        .map(|n| format!("echo {n} > step-{n}.txt; echo {n} >> MARKS/$(basename $(pwd)).steps"))
        .collect();
    let list: Vec<&str> = list.iter().map(String::as_str).collect();
    let world = commands(&list)?;
    let workers = vec![world.worker("a"), world.worker("b")];
    eprintln!("{tasks} tasks of {STEPS} steps, two workers{}", if kill { ", killed at random" } else { "" });
    Some((world, workers))
}

fn run(tasks: usize, kill: bool) {
    let Some((world, mut workers)) = world(tasks, kill) else { return };
    let fleet = world.fleet();
    let begun = Instant::now();
    let ids: Vec<String> = (0..tasks).map(|number| format!("scale-{number}")).collect();
    for id in &ids {
        let mut spec = world.spec(id, "Take ten steps.");
        spec.carriage.heartbeat_ms = 10_000;
        world.runtime.block_on(fleet.submit(spec)).unwrap();
    }
    eprintln!("submitted in {:?}", begun.elapsed());
    let (mut killed, mut most) = (0_u32, BTreeMap::new());
    loop {
        let all = world.runtime.block_on(fleet.list()).unwrap();
        let left = all.iter().filter(|task| task.ended_at.is_none()).count();
        for worker in &workers {
            let entry = most.entry(worker.id()).or_insert(0);
            *entry = memory(worker.id()).max(*entry);
        }
        if left == 0 {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(3_600), "{left} tasks do not end");
        if kill && begun.elapsed().as_secs() > u64::from(killed + 1) * 20 && left > tasks / 10 {
            // Any moment is as good as another: the time of day decides who it is.
            let which = begun.elapsed().subsec_nanos() as usize % workers.len();
            let name = if which == 0 { "a" } else { "b" };
            workers.remove(which).kill();
            workers.insert(which, world.worker(name));
            killed += 1;
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    let took = begun.elapsed();
    let (mut all, mut steps, mut twice, mut lost) = (Vec::new(), 0, 0, 0);
    for id in &ids {
        let ended = world.runtime.block_on(fleet.show(id)).unwrap();
        assert_eq!(ended.status.unwrap().outcome.unwrap().status, Status::Claimed, "{id}");
        let events = world.events(&fleet, id);
        let is_lost = |stamped: &&Stamped| {
            matches!(stamped.event, Event::Answered { answer: EffectAnswer::EffectLost, .. })
        };
        lost += events.iter().filter(is_lost).count();
        all.extend(overheads(&events));
        let effects = world.effects(id);
        let once: std::collections::BTreeSet<_> = effects.iter().collect();
        twice += effects.len() - once.len();
        steps += once.len();
    }
    all.sort_unstable();
    eprintln!(
        "{steps} steps in {took:.1?}: {:.1} a second; {twice} twice, {lost} of unknown outcome; {killed} workers killed; overhead of a step p50 {} ms, p95 {} ms; most memory of a worker {:?} MB",
        steps as f64 / took.as_secs_f64(),
        part(&all, 0.5),
        part(&all, 0.95),
        most.values().max()
    );
    assert_eq!((steps + lost, twice), (tasks * STEPS, 0));
}

pub(crate) fn many_tasks() {
    let Ok(tasks) = std::env::var("RAWKO_FLEET_SCALE") else { return };
    let tasks: usize = tasks.parse().unwrap();
    run(1, false);
    run(tasks, false);
    run(tasks, true);
}
