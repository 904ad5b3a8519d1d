//! The program as its users meet it: help, bad input, reports, and a run over loopback.

mod documentation;
mod report;
mod support;
