//! That nothing a check does stops what comes after it.

use super::*;
use gslb_types::{Check, ServiceName, ServiceState, Timestamp};
use probes_core::Monitors;
use probes_core::monitors::{MonitorSettings, Output, ServiceSettings};
use std::time::Duration;

/// An engine whose checks do as told; it ends with the sender of requests.
fn engine<A, F>(answer: A) -> (mpsc::Sender<Request>, mpsc::Receiver<Reply>)
where
    A: Fn(Arc<Sender>, Request) -> F + Send + 'static,
    F: Future<Output = Reply> + Send + 'static,
{
    let settings = Settings { in_flight: 2, ..Settings::default() };
    let (requests, requested) = mpsc::channel(16);
    let (replies, replied) = mpsc::channel(16);
    let sender = Sender { settings, icmp: Icmp::open(&settings), tools: Tools::new(1) };
    let engine = Engine {
        sender: Arc::new(sender),
        probes: Arc::new(Semaphore::new(2)),
        checks: Arc::new(Semaphore::new(2)),
        running: JoinSet::new(),
        asked: HashMap::new(),
        refused: VecDeque::new(),
        replies,
        answer,
        _stops_the_others: CancellationToken::new().drop_guard(),
    };
    tokio::spawn(engine.run(requested));
    (requests, replied)
}

#[tokio::test]
async fn a_panic_in_a_check_stops_no_monitor() {
    // Faults I-57: every check panics, from the second on, until it has done so ten times; there is room for two at once.
    let panics = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counted = Arc::clone(&panics);
    let (requests, mut replies) = engine(move |_, request| {
        let nth = counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        async move {
            let Request::Check(CheckRequest { id, .. }) = request else { unreachable!("only checks") };
            assert!(!(1..=10).contains(&nth), "a panic, as planned");
            Reply::Check(CheckReply { id, outcome: CheckOutcome::Passed(gslb_types::Rtt::MIN) })
        }
    });
    let monitor = MonitorSettings {
        interval: Duration::from_secs(5),
        ..MonitorSettings::new(Check::Tcp, ([192, 0, 2, 1], 80).into())
    };
    let name = ServiceName::new("web").unwrap();
    let service = ServiceSettings { service: 0, name, monitors: vec![monitor], threshold: None };
    let (mut machine, mut now) = (Monitors::new(7), Timestamp::ZERO);
    machine.set_bindings(now, vec![service]);
    let mut seen = Vec::new();
    for _ in 0..13 {
        let request = loop {
            match machine.poll_output() {
                Some(Output::Check(request)) => break request,
                Some(_) => {}
                None => {
                    now = machine.poll_timeout().unwrap();
                    machine.handle_timeout(now);
                }
            }
        };
        requests.send(Request::Check(request)).await.unwrap();
        let reply = timeout(Duration::from_secs(20), replies.recv()).await.unwrap().unwrap();
        let Reply::Check(reply) = reply else { panic!("{reply:?}") };
        machine.handle_reply(now, reply);
        seen.push(machine.view(0).unwrap().state);
    }
    use ServiceState::{Learning, Up};
    println!("I-57: ten checks in a row panic: {seen:?}, {:?}", machine.stats());
    let learning = std::iter::repeat_n(Learning, 8);
    let expected: Vec<_> = [Up, Up, Up].into_iter().chain(learning).chain([Up, Up]).collect();
    assert_eq!(seen, expected, "learning from the third on, and up again");
    assert_eq!(machine.stats().overdue, 0, "each was reported");
    let history = machine.view(0).unwrap().monitors.remove(0).history;
    assert!(history.iter().any(|past| past.seen.to_string() == BROKEN));
}
