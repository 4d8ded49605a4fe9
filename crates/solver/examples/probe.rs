use meshwright_solver::*;
fn main() {
    let path = std::env::args().nth(1).unwrap();
    let secs: f64 = std::env::args().nth(2).map_or(10.0, |s| s.parse().unwrap());
    let threads: usize = std::env::args().nth(3).map_or(1, |s| s.parse().unwrap());
    let known: f64 = std::env::args().nth(4).map_or(0.0, |s| s.parse().unwrap());
    let out = std::process::Command::new("zcat").arg(&path).output().unwrap().stdout;
    let t = std::time::Instant::now();
    let p = contest::read(&out).unwrap();
    eprintln!("read {:?}", t.elapsed());
    drop(out);
    let t = std::time::Instant::now();
    let mut last = (None, None);
    let options = Options { limit: if secs > 1e6 { Limit::Work(secs) } else { Limit::Time(std::time::Duration::from_secs_f64(secs)) }, threads, seed: 0, start: Start::default() };
    let a = solve(&p, &options, |pr| {
        if (pr.cost, pr.lower_bound) != last {
            last = (pr.cost, pr.lower_bound);
            eprintln!("{:.2} cost {:?} ({:+.4}%) bound {:?} gap {:.4}%", cpu(), pr.cost, pr.cost.map_or(0.0, |c| 100.0 * (c as f64 / known - 1.0)), pr.lower_bound, 100.0 * (1.0 - pr.lower_bound.unwrap_or(0) as f64 / pr.cost.unwrap_or(1) as f64));
        }
    }).unwrap();
    match a { Answer::Solved(s) => println!("{:.2} s: cost {} bound {} optimal {} peak {:?}", t.elapsed().as_secs_f64(), s.evaluation.cost, s.lower_bound, s.is_optimal(), s.evaluation.peaks), other => println!("{other:?}") }
}
