//! DNS messages: what a packet asks, and the packet that answers it. Pure.
//!
//! One question for addresses of class IN is all that is understood; everything else gets the answer that ends the
//! matter. Whatever the bytes are, nothing here panics or grows beyond the packet.

use std::net::IpAddr;
use std::time::Duration;

use hickory_proto::op::{Edns, Message, MessageType, Metadata, OpCode, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};

use super::enforcement::Family;
use super::matching::canonical;

/// The largest answer over UDP, whatever the client says it can take.
const LARGEST_UDP: u16 = 1232;
/// Without a word of the client's on that.
const PLAIN_UDP: u16 = 512;
const HEADER: usize = 12;

/// What a packet is.
#[derive(Debug)]
pub(super) enum Packet {
    /// Not for a server.
    Noise,
    /// It gets this answer at once.
    Answered(Vec<u8>),
    Question(Box<Question>),
}

/// One question.
#[derive(Debug)]
pub(super) struct Question {
    /// In canonical form; empty for what is no host name.
    pub(super) name: String,
    pub(super) family: Family,
    request: Message,
}

/// What a question comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Refused,
    NoSuchName,
    /// Perhaps none.
    Addresses(Vec<IpAddr>),
    /// They are known but could not be opened.
    Failed,
}

/// Reads a packet.
pub(super) fn read(packet: &[u8]) -> Packet {
    let Ok(request) = Message::from_vec(packet) else { return malformed(packet) };
    if request.metadata.message_type != MessageType::Query {
        return Packet::Noise;
    }
    let refusal = |code| {
        let mut reply = response(&request);
        reply.metadata.response_code = code;
        reply.to_vec().map_or(Packet::Noise, Packet::Answered)
    };
    if request.metadata.op_code != OpCode::Query {
        return refusal(ResponseCode::NotImp);
    }
    if request.edns.as_ref().is_some_and(|edns| edns.version() != 0) {
        return refusal(ResponseCode::BADVERS);
    }
    let [query] = request.queries.as_slice() else { return refusal(ResponseCode::FormErr) };
    if query.query_class() != DNSClass::IN {
        return refusal(ResponseCode::Refused);
    }
    let kind = query.query_type();
    let family = if kind == RecordType::A {
        Family::V4
    } else if kind == RecordType::AAAA {
        Family::V6
    } else {
        Family::Neither
    };
    Packet::Question(Box::new(Question { name: host_name(query.name()), family, request }))
}

impl Question {
    /// The packet that answers it; over UDP it is cut short so that the client asks again over TCP.
    pub(super) fn answer(&self, outcome: &Outcome, life: Duration, udp: bool) -> Option<Vec<u8>> {
        let mut reply = response(&self.request);
        reply.metadata.response_code = match outcome {
            Outcome::Refused => ResponseCode::Refused,
            Outcome::NoSuchName => ResponseCode::NXDomain,
            Outcome::Addresses(_) => ResponseCode::NoError,
            Outcome::Failed => ResponseCode::ServFail,
        };
        if let (Outcome::Addresses(addresses), Some(query)) = (outcome, self.request.queries.first()) {
            let ttl = u32::try_from(life.as_secs()).unwrap_or(u32::MAX);
            let record = |address: &IpAddr| Record::from_rdata(query.name().clone(), ttl, RData::from(*address));
            reply.add_answers(addresses.iter().map(record));
        }
        let packet = reply.to_vec().ok()?;
        let asked = self.request.edns.as_ref().map_or(PLAIN_UDP, Edns::max_payload);
        let most = if udp { asked.clamp(PLAIN_UDP, LARGEST_UDP) } else { u16::MAX };
        if packet.len() <= usize::from(most) { Some(packet) } else { reply.truncate().to_vec().ok() }
    }
}

fn response(request: &Message) -> Message {
    let mut reply = Message::response(request.metadata.id, request.metadata.op_code);
    reply.metadata = Metadata::response_from_request(&request.metadata);
    // Clients complain about servers that do not answer for everything. This one does: there is nothing else.
    reply.metadata.recursion_available = true;
    reply.add_queries(request.queries.iter().take(1).cloned());
    if request.edns.is_some() {
        let mut edns = Edns::new();
        edns.set_max_payload(LARGEST_UDP);
        reply.set_edns(edns);
    }
    reply
}

/// A format error, if there is at least the header of a query.
fn malformed(packet: &[u8]) -> Packet {
    let (Some([high, low, flags, ..]), true) = (packet.first_chunk::<4>(), packet.len() >= HEADER) else {
        return Packet::Noise;
    };
    if flags & 0x80 != 0 {
        return Packet::Noise;
    }
    let id = u16::from_be_bytes([*high, *low]);
    let reply = Message::error_msg(id, OpCode::Query, ResponseCode::FormErr);
    reply.to_vec().map_or(Packet::Noise, Packet::Answered)
}

/// The canonical form, or nothing: a label with a dot in it must not pass for two.
fn host_name(name: &Name) -> String {
    let labels: Option<Vec<&str>> =
        name.iter().map(|label| std::str::from_utf8(label).ok().filter(|label| !label.contains('.'))).collect();
    labels.and_then(|labels| canonical(&labels.join("."))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hickory_proto::op::Query;
    use proptest::prelude::*;
    use rstest::rstest;

    const LIFE: Duration = Duration::from_secs(30);

    fn ask(name: &str, record: RecordType) -> Message {
        let mut message = Message::query();
        message.metadata.recursion_desired = true;
        message.add_query(Query::query(Name::from_ascii(name).unwrap(), record));
        message
    }

    fn question(message: &Message) -> Question {
        let packet = read(&message.to_vec().unwrap());
        let Packet::Question(question) = packet else { panic!("{packet:?}") };
        *question
    }

    fn answered(packet: Packet) -> Message {
        let Packet::Answered(bytes) = packet else { panic!("{packet:?}") };
        Message::from_vec(&bytes).unwrap()
    }

    #[rstest]
    #[case("WWW.Example.com.", RecordType::A, "www.example.com", Family::V4)]
    #[case("example.com.", RecordType::AAAA, "example.com", Family::V6)]
    #[case("example.com.", RecordType::MX, "example.com", Family::Neither)]
    #[case(".", RecordType::NS, "", Family::Neither)]
    #[case("a\\.example.com.", RecordType::A, "", Family::V4)]
    fn questions(#[case] name: &str, #[case] record: RecordType, #[case] asked: &str, #[case] family: Family) {
        let question = question(&ask(name, record));
        assert_eq!((question.name.as_str(), question.family), (asked, family));
    }

    #[test]
    fn an_answer_repeats_the_question_and_has_the_addresses() {
        let message = ask("Example.com.", RecordType::A);
        let outcome = Outcome::Addresses(vec![[203, 0, 113, 7].into()]);
        let reply = question(&message).answer(&outcome, LIFE, true).unwrap();
        let reply = Message::from_vec(&reply).unwrap();
        assert_eq!((reply.metadata.id, &reply.queries), (message.metadata.id, &message.queries));
        assert_eq!(reply.answers[0].data, RData::from(IpAddr::from([203, 0, 113, 7])));
        assert_eq!(reply.answers[0].ttl, 30);
        assert!(!reply.metadata.truncation);
    }

    #[test]
    fn what_does_not_fit_into_a_datagram_is_cut_short() {
        let many = Outcome::Addresses((0..100).map(|n| IpAddr::from([203, 0, 113, n])).collect());
        let mut message = ask("example.com.", RecordType::A);
        let size = |message: &Message, udp| question(message).answer(&many, LIFE, udp).unwrap();
        assert!(size(&message, true).len() <= 512);
        assert!(Message::from_vec(&size(&message, true)).unwrap().metadata.truncation);
        message.set_edns(Edns::new().set_max_payload(60_000).clone());
        assert!(size(&message, true).len() <= 1232);
        assert_eq!(Message::from_vec(&size(&message, false)).unwrap().answers.len(), 100);
    }

    #[test]
    fn what_is_no_question_gets_the_answer_that_ends_it() {
        let code = |message: &Message| answered(read(&message.to_vec().unwrap())).metadata.response_code;
        let mut update = ask("example.com.", RecordType::A);
        update.metadata.op_code = OpCode::Update;
        assert_eq!(code(&update), ResponseCode::NotImp);
        let mut two = ask("example.com.", RecordType::A);
        two.add_query(two.queries[0].clone());
        assert_eq!(code(&two), ResponseCode::FormErr);
        let mut chaos = ask("version.bind.", RecordType::TXT);
        chaos.queries[0].set_query_class(DNSClass::CH);
        assert_eq!(code(&chaos), ResponseCode::Refused);
        let mut edns = ask("example.com.", RecordType::A);
        edns.set_edns(Edns::new().set_version(1).clone());
        // The number has two names.
        assert_eq!(u16::from(code(&edns)), u16::from(ResponseCode::BADVERS));

        let broken = [0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 63];
        let reply = answered(read(&broken));
        assert_eq!((reply.metadata.id, reply.metadata.response_code), (0x1234, ResponseCode::FormErr));
        assert!(matches!(read(&broken[..5]), Packet::Noise));
        let mut reply = ask("example.com.", RecordType::A);
        reply.metadata.message_type = MessageType::Response;
        assert!(matches!(read(&reply.to_vec().unwrap()), Packet::Noise));
    }

    proptest! {
        #[test]
        fn no_packet_harms(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            read(&bytes);
        }

        #[test]
        fn no_damaged_question_harms(at in 0usize..40, byte in any::<u8>(), cut in 0usize..40) {
            let mut bytes = ask("www.example.com.", RecordType::A).to_vec().unwrap();
            if let Some(place) = bytes.get_mut(at) { *place = byte; }
            bytes.truncate(bytes.len() - cut.min(bytes.len()));
            if let Packet::Question(question) = read(&bytes) {
                let outcome = Outcome::Addresses(vec![[203, 0, 113, 7].into()]);
                prop_assert!(question.answer(&outcome, LIFE, true).is_none_or(|reply| reply.len() <= 1232));
            }
        }
    }
}
