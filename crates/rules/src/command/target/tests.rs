//! The table at its edges.

use rstest::rstest;

use super::*;

fn found(target: Option<Target>) -> String {
    target.map_or_else(|| "-".to_owned(), |target| format!("{} {}", target.zone.as_str(), target.name))
}

#[rstest]
#[case::below_a_24("169.254.168.255", false)]
#[case::first_of_a_24("169.254.169.0", true)]
#[case::last_of_two("169.254.170.255", true)]
#[case::above("169.254.171.0", false)]
#[case::below_one("169.254.42.41", false)]
#[case::one("169.254.42.42", true)]
#[case::above_one("169.254.42.43", false)]
#[case::tencent("169.254.0.23", true)]
#[case::alibaba("100.100.100.200", true)]
#[case::azure("168.63.129.16", true)]
#[case::oracle("192.0.0.192", true)]
#[case::beside_oracle("192.0.0.193", false)]
#[case::aws6_first("fd00:ec2::", true)]
#[case::aws6_last("fd00:ec2:ffff:ffff:ffff:ffff:ffff:ffff", true)]
#[case::below_aws6("fd00:ec1:ffff:ffff:ffff:ffff:ffff:ffff", false)]
#[case::above_aws6("fd00:ec3::", false)]
#[case::google6("fd20:ce::254", true)]
#[case::beside_google6("fd20:cf::254", false)]
#[case::link_local6("fe80::a9fe:a9fe", true)]
#[case::beside_link_local6("fe80::a9fe:a9ff", false)]
#[case::platform_first("fdaa::", true)]
#[case::platform_last("fdaa:ffff:ffff:ffff:ffff:ffff:ffff:ffff", true)]
#[case::below_the_platform("fda9:ffff:ffff:ffff:ffff:ffff:ffff:ffff", false)]
#[case::above_the_platform("fdab::", false)]
fn a_network_ends_where_the_table_says(#[case] text: &str, #[case] refused: bool) {
    let zone = if text.starts_with("fdaa") { "ProviderInternal" } else { "Metadata" };
    let expected = if refused { format!("{zone} {text}") } else { "-".to_owned() };
    assert_eq!(found(address(text.parse().unwrap())), expected);
}

#[rstest]
#[case::compatible("::a9fe:a9fe", true)]
#[case::mapped("::ffff:a9fe:a9fe", true)]
#[case::translated("::ffff:0:a9fe:a9fe", true)]
#[case::translated_by_prefix("64:ff9b::a9fe:a9fe", true)]
#[case::translated_locally("64:ff9b:1::a9fe:a9fe", true)]
#[case::isatap("2001:db8::5efe:a9fe:a9fe", true)]
#[case::isatap_global("2001:db8::200:5efe:a9fe:a9fe", true)]
#[case::six_to_four("2002:a9fe:a9fe::1", true)]
#[case::teredo("2001:0:1:2:3:4:5601:5601", true)]
#[case::no_teredo("2001:1:1:2:3:4:5601:5601", false)]
#[case::no_isatap("2001:db8::201:5efe:a9fe:a9fe", false)]
#[case::no_prefix("64:ff9c::a9fe:a9fe", false)]
#[case::no_mapped("::1:a9fe:a9fe", false)]
#[case::a_public_address_inside("::ffff:808:808", false)]
fn an_address_inside_another_counts(#[case] text: &str, #[case] refused: bool) {
    let expected = if refused { "Metadata 169.254.169.254" } else { "-" };
    assert_eq!(found(address(text.parse().unwrap())), expected);
}

#[rstest]
#[case("metadata", "Metadata metadata")]
#[case("instance-data", "Metadata instance-data")]
#[case("x.metadata", "-")]
#[case("x.metadata.google.internal", "Metadata x.metadata.google.internal")]
#[case("metadata.example.internal", "ProviderInternal metadata.example.internal")]
#[case("flycast", "ProviderInternal flycast")]
#[case("xflycast", "-")]
#[case("docker.internal", "-")]
#[case("host.docker.internal", "-")]
#[case("metadata.goog", "Metadata metadata.goog")]
#[case("x.metadata.azure.com", "Metadata x.metadata.azure.com")]
#[case("metadata.example.com", "-")]
#[case("169.254.169.254.nip.io", "Metadata 169.254.169.254")]
#[case("a-1-169-254-169-254.sslip.io", "Metadata 169.254.169.254")]
#[case("a9fea9fe.nip.io", "Metadata 169.254.169.254")]
#[case("x-a9fea9fe.nip.io", "Metadata 169.254.169.254")]
#[case("a9fea9fe-x.nip.io", "-")]
#[case("0a9fea9fe.nip.io", "-")]
#[case("169.254.169.254nip.io", "-")]
#[case("nip.io", "-")]
fn a_name_is_of_its_zone(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(found(name(text)), expected);
}

#[test]
fn a_short_name_is_one_that_may_be_an_ordinary_word() {
    for (name, short) in
        [("metadata", true), ("internal", true), ("flycast", true), ("metadata.google", false), ("example", false)]
    {
        assert_eq!(is_short(name), short, "{name}");
    }
}

#[test]
fn a_socket_is_its_path_whatever_stands_at_the_end() {
    assert_eq!(found(socket("/.fly/api//")), "ProviderInternal /.fly/api");
    assert_eq!(found(socket("/.fly")), "-");
}
