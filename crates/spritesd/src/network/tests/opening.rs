//! What a guest can reach, by name and by address, under which policy.

use std::time::Duration;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::RecordType;

use super::support::{Lab, echoes, eventually};

#[tokio::test]
async fn without_rules_all_of_the_world_answers() {
    let lab = Lab::new().await;
    lab.host(Some("api.example.com"), "203.0.113.7").await;
    lab.host(Some("api.example.com"), "2001:db8::7").await;
    lab.host(None, "192.0.2.1").await;
    lab.host(Some("metadata.example"), "169.254.169.254").await;
    lab.host(Some("private.example"), "10.0.0.1").await;
    lab.host(Some("_api.internal"), "fdaa::3").await;
    let guest = lab.guest("").await;
    for addr in ["203.0.113.7", "2001:db8::7", "192.0.2.1", "169.254.169.254", "10.0.0.1", "fdaa::3"] {
        assert!(guest.reaches(addr).await, "{addr}");
    }
    assert_eq!(guest.resolve("API.example.com.").await, ["203.0.113.7".parse::<std::net::IpAddr>().unwrap()]);
    let six = guest.ask("api.example.com", RecordType::AAAA).await;
    assert_eq!(six, (ResponseCode::NoError, vec!["2001:db8::7".parse().unwrap()]));
    assert_eq!(guest.ask("api.example.com", RecordType::MX).await, (ResponseCode::NoError, vec![]));
    assert_eq!(guest.ask("nobody.example.com", RecordType::A).await, (ResponseCode::NXDomain, vec![]));
    // Hosts that do not exist, and ports where nobody listens.
    assert!(!guest.reaches("203.0.113.99").await);
    assert!(!guest.reaches("2001:db8::99").await);
}

#[tokio::test]
async fn an_allowed_name_opens_its_addresses_when_it_is_looked_up() {
    let lab = Lab::new().await;
    lab.host(Some("api.example.com"), "203.0.113.7").await;
    lab.host(Some("api.example.com"), "203.0.113.8").await;
    lab.host(Some("api.example.com"), "2001:db8::7").await;
    lab.host(Some("other.example.org"), "203.0.113.9").await;
    let guest = lab.guest("+*.example.com").await;
    assert!(!guest.reaches("203.0.113.7").await);
    assert_eq!(guest.ask("other.example.org", RecordType::A).await, (ResponseCode::Refused, vec![]));
    assert_eq!(guest.ask("unknown.example.com", RecordType::A).await, (ResponseCode::NXDomain, vec![]));
    assert_eq!(guest.resolve("api.example.com").await.len(), 2);
    assert!(guest.reaches("203.0.113.7").await && guest.reaches("203.0.113.8").await);
    // The answer had no addresses of the other family.
    assert!(!guest.reaches("2001:db8::7").await);
    assert_eq!(guest.ask("api.example.com", RecordType::AAAA).await.1.len(), 1);
    assert!(guest.reaches("2001:db8::7").await);
    assert!(!guest.reaches("203.0.113.9").await);
}

#[tokio::test]
async fn allowing_all_names_opens_no_literal_address() {
    let lab = Lab::new().await;
    lab.host(Some("api.example.com"), "203.0.113.7").await;
    lab.host(None, "192.0.2.1").await;
    let guest = lab.guest("-_api.internal +*").await;
    assert_eq!(guest.ask("_api.internal", RecordType::AAAA).await.0, ResponseCode::Refused);
    assert!(!guest.reaches("192.0.2.1").await);
    guest.resolve("api.example.com").await;
    assert!(guest.reaches("203.0.113.7").await);
}

#[tokio::test]
async fn private_ranges_are_closed_while_there_are_rules() {
    let lab = Lab::new().await;
    lab.host(Some("metadata.example"), "169.254.169.254").await;
    lab.host(Some("private.example"), "10.0.0.1").await;
    lab.host(Some("six.example"), "fdaa::3").await;
    let guest = lab.guest("").await;
    assert!(guest.reaches("169.254.169.254").await && guest.reaches("fdaa::3").await);
    guest.set("+*").await;
    assert_eq!(guest.resolve("metadata.example").await.len(), 1);
    assert_eq!(guest.resolve("private.example").await.len(), 1);
    assert_eq!(guest.ask("six.example", RecordType::AAAA).await.1.len(), 1);
    for addr in ["169.254.169.254", "10.0.0.1", "fdaa::3"] {
        assert!(!guest.reaches(addr).await, "{addr}");
    }
}

#[tokio::test]
async fn the_window_before_a_lockdown_is_open_and_then_shut() {
    let lab = Lab::new().await;
    lab.host(Some("api.example.com"), "203.0.113.7").await;
    let guest = lab.guest("").await;
    guest.resolve("api.example.com").await;
    assert!(guest.reaches("203.0.113.7").await);
    guest.set("-*").await;
    assert!(!guest.reaches("203.0.113.7").await);
    assert_eq!(guest.ask("api.example.com", RecordType::A).await.0, ResponseCode::Refused);
    // Widened by a name, and then entirely.
    guest.set("+api.example.com").await;
    assert!(!guest.reaches("203.0.113.7").await);
    guest.resolve("api.example.com").await;
    assert!(guest.reaches("203.0.113.7").await);
    guest.set("").await;
    assert!(guest.reaches("203.0.113.7").await);
    assert_eq!(guest.ask("nobody.example.com", RecordType::A).await.0, ResponseCode::NXDomain);
}

#[tokio::test]
async fn presets_open_their_names_and_leave_denies_alone() {
    let lab = Lab::new().await;
    lab.host(Some("github.com"), "203.0.113.20").await;
    lab.host(Some("pypi.org"), "203.0.113.21").await;
    lab.host(Some("example.com"), "203.0.113.22").await;
    let guest = lab.guest("defaults -pypi.org").await;
    guest.resolve("github.com").await;
    assert!(guest.reaches("203.0.113.20").await);
    assert_eq!(guest.ask("pypi.org", RecordType::A).await.0, ResponseCode::Refused);
    assert_eq!(guest.ask("example.com", RecordType::A).await.0, ResponseCode::Refused);
}

#[tokio::test]
async fn each_guest_has_its_own_policy() {
    let lab = Lab::new().await;
    lab.host(Some("a.example"), "203.0.113.1").await;
    lab.host(Some("b.example"), "203.0.113.2").await;
    let (one, two, three) = (lab.guest("+a.example").await, lab.guest("+b.example").await, lab.guest("").await);
    for guest in [&one, &two, &three] {
        guest.ask("a.example", RecordType::A).await;
        guest.ask("b.example", RecordType::A).await;
    }
    assert_eq!((one.reaches("203.0.113.1").await, one.reaches("203.0.113.2").await), (true, false));
    assert_eq!((two.reaches("203.0.113.1").await, two.reaches("203.0.113.2").await), (false, true));
    assert_eq!((three.reaches("203.0.113.1").await, three.reaches("203.0.113.2").await), (true, true));
}

#[tokio::test]
async fn an_answer_closes_again_without_cutting_what_runs() {
    let lab = Lab::with_answer_life(Duration::from_millis(600)).await;
    lab.host(Some("a.example"), "203.0.113.1").await;
    let guest = lab.guest("+a.example").await;
    guest.resolve("a.example").await;
    let mut running = guest.connect("203.0.113.1").await.unwrap();
    eventually("the address closes", || async { !guest.reaches("203.0.113.1").await }).await;
    assert!(echoes(&mut running).await);
    // A connection that outlives its answer is still carried over.
    guest.set("+a.example +b.example").await;
    assert!(echoes(&mut running).await);
    guest.resolve("a.example").await;
    assert!(guest.reaches("203.0.113.1").await);
}

#[tokio::test]
async fn a_name_looked_up_again_and_again_stays_open() {
    let lab = Lab::with_answer_life(Duration::from_secs(1)).await;
    lab.host(Some("a.example"), "203.0.113.1").await;
    let guest = lab.guest("+a.example").await;
    let begun = std::time::Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        guest.resolve("a.example").await;
        assert!(guest.reaches("203.0.113.1").await, "after {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn a_host_added_later_is_found() {
    let lab = Lab::new().await;
    let guest = lab.guest("+late.example").await;
    assert_eq!(guest.ask("late.example", RecordType::A).await.0, ResponseCode::NXDomain);
    lab.host(Some("late.example"), "203.0.113.30").await;
    guest.resolve("late.example").await;
    assert!(guest.reaches("203.0.113.30").await);
    assert_eq!(lab.world.hosts().len(), 1);
}
