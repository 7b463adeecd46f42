//! All Sprites of an installation, by the prefix of their names.

use serde_json::json;

use super::Site;

#[tokio::test]
async fn a_list_by_prefix_is_complete_over_several_pages_and_holds_nothing_else() {
    let site = Site::new();
    let mut expected = Vec::new();
    for number in 0..120 {
        let name = format!("so-{number:03}");
        site.daemon.call("POST", "", json!({ "name": name }).to_string()).await;
        expected.push(name);
        if number % 4 == 0 {
            let other = ["s", "so", "sn", "sp", "xso-"][number / 4 % 5];
            let body = json!({ "name": format!("{other}{number}") });
            let (status, _) = site.daemon.call("POST", "", body.to_string()).await;
            assert!(status.is_success());
        }
    }
    site.faults(json!([{ "route": "list", "effect": "delay", "delay": "1ms" }])).await;
    let mut names: Vec<_> = site.client.list("so-").await.unwrap().into_iter().map(|sprite| sprite.name).collect();
    assert_eq!(site.hits().await, [3]);
    names.sort();
    assert_eq!(names, expected);
    assert_eq!(site.client.list("none-").await.unwrap(), []);
    assert_eq!(site.client.list("").await.unwrap().len(), 120 + 30);

    // Half a list would look like missing Sprites.
    let last = json!([{ "route": "list", "effect": "delay", "delay": "1ms", "count": 2 },
                      { "route": "list", "effect": "error-before", "status": 500 }]);
    site.faults(last).await;
    assert!(site.client.list("so-").await.is_err());
    assert_eq!(site.events("wake").await.len(), 0);
    site.end().await;
}
