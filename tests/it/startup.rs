//! What the operator refuses to start with.

use test_support::{TestEnv, environment::LONG};

#[tokio::test]
async fn a_selector_that_the_api_server_refuses_ends_the_operator_with_what_to_write() {
    let mut env = TestEnv::prepared().await;
    env.start_spritesd();
    env.flags.retain(|flag| !flag.starts_with("--policy-selector"));
    for selector in ["a in b", "a=b=c"] {
        env.flags.push(format!("--policy-selector={selector}"));
        let mut operator = env.another_operator();
        let ending = tokio::task::spawn_blocking(move || (operator.wait(), operator.said()));
        let (code, said) = tokio::time::timeout(LONG, ending).await.expect("it goes on").unwrap();
        assert_eq!(code, Some(1), "{said}");
        let expected = format!("--policy-selector: the API server refuses `{selector}`: ");
        assert!(said.contains(&expected) && said.contains("write one such as team=blue"), "{said}");
        env.flags.pop();
        env.free_lease().await;
    }
}
