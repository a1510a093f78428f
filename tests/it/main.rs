//! Every integration test, in one program.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    unreachable_pub,
    reason = "tests drive the real thing from outside, and may stop at the first surprise"
)]

mod agents;
mod attach;
mod bodies;
mod browser;
mod cli;
mod config;
mod config_commands;
mod crash;
mod demo;
mod disk_full;
mod doctor;
mod doctor_host;
mod doctor_leftovers;
mod doctor_limits;
mod doctor_others;
mod doctor_places;
mod doctor_report;
mod doctor_server;
mod doctor_trust;
mod events;
mod file_server;
mod git_server;
mod github;
mod github_api;
mod github_telling;
mod harnesses;
mod in_use;
mod inbox;
mod init;
mod init_github;
mod injection;
mod install;
mod install_asks;
mod install_faults;
mod install_places;
mod install_script;
mod install_words;
mod limits;
mod load;
mod loops;
mod main_job;
mod mock_api;
mod mock_models;
mod not_ready;
mod payloads;
mod pins;
mod process;
mod readme;
mod real_agents;
mod real_claude;
mod receiver;
mod refusals;
mod registry;
mod reload;
mod routing;
mod schema;
mod service;
mod status;
mod strangers;
mod stream;
mod stubborn;
mod support;
mod tidy;
mod tmux;
mod turns;
mod waiting;
mod web_client;
mod web_command;
mod web_guard;
mod web_isolation;
mod web_keys;
mod web_pages;
mod web_relay;
mod web_strangers;
mod web_strays;
mod web_text;
mod workspace;
