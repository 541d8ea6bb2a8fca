//! Confines real commands and lets them try.
use rawko_sandbox::{Network, Plan, Step};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

fn main() {
    rawko_sandbox::run_helper_if_asked();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let dir = PathBuf::from(&args[0]);
    let tmp = tempfile::tempdir().unwrap();
    let n: usize = args.get(2).map_or(1, |n| n.parse().unwrap());
    let plan = Plan {
        directory: dir.clone(),
        view: vec![Step::Cover("/root".into()), Step::Grant(dir.clone())],
        temporary: tmp.path().to_owned(),
        network: Network::Own,
        input: vec![],
        max_processes: 4096,
    };
    let mut times = vec![];
    let mut ready = vec![];
    let mut ended = vec![];
    for _ in 0..n {
        let t = std::time::Instant::now();
        let exe = std::env::current_exe().unwrap();
        let (mut c, mut control) = rawko_sandbox::command(
            &exe,
            Path::new("/bin/bash"),
            &[OsString::from("-c"), args[1].clone().into()],
        )
        .unwrap();
        let mut child = c.stdout(Stdio::inherit()).spawn().unwrap();
        drop(c);
        control.send(&plan, None).unwrap();
        if n > 1 {
            while let Some(r) = control.next().unwrap() {
                if r == rawko_sandbox::Report::Ready {
                    ready.push(t.elapsed());
                } else {
                    ended.push(t.elapsed());
                    break;
                }
            }
        }
        let status = child.wait().unwrap();
        times.push(t.elapsed());
        if n == 1 {
            println!("{status:?}");
            while let Some(r) = control.next().unwrap() {
                println!("{r:?}");
            }
        }
    }
    times.sort();
    if n > 1 {
        ready.sort();
        ended.sort();
        println!("ready {:?} ended {:?} exit {:?}", ready[n / 2], ended[n / 2], times[n / 2]);
    }
}
