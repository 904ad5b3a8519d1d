#[test]
fn the_checkout_is_tidy() {
    let found =
        xtask::tidy::breaches(&xtask::checkout::find_root()).expect("the checkout can be read");
    let errors: Vec<String> = found
        .iter()
        .filter(|breach| !breach.warning)
        .map(ToString::to_string)
        .collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

#[test]
fn crates_depend_only_on_what_they_may_know() {
    let found = xtask::boundaries::find_breaches().expect("cargo metadata can be read");
    assert!(found.is_empty(), "{}", found.join("\n"));
}
