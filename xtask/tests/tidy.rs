#[test]
fn the_checkout_is_tidy() {
    let root = xtask::checkout::find_root();
    let found = xtask::tidy::find_breaches(&root).expect("the checkout can be read");
    let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert!(texts.is_empty(), "{}", texts.join("\n"));
}

#[test]
fn crates_depend_only_on_what_they_may_know() {
    let found = xtask::boundaries::find_breaches().expect("cargo metadata can be read");
    assert!(found.is_empty(), "{}", found.join("\n"));
}
