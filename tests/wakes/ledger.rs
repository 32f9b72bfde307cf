//! The ways in which systems of this kind were seen to lose or to repeat work, and the test that stands against each. A test
//! that is renamed or removed leaves its line without a guard, and that fails here.

use std::fs;

use crate::support::root;

const WAYS: &[(&str, &str, &str)] = &[
    (
        "an append is acknowledged before it is on the disk",
        "session/faults.rs",
        "a_commit_waits_for_the_disk",
    ),
    (
        "inputs are marked as done before their result is stored",
        "session/suite/leases.rs",
        "nothing_is_consumed_before_the_commit",
    ),
    (
        "a commit is several writes, and a crash falls between them",
        "session/kill.rs",
        "killed_at_every_step_nothing_acknowledged_is_lost",
    ),
    (
        "a crash in the middle of a run leaves it open, or runs it as another",
        "wakes/workers.rs",
        "a_worker_that_is_killed_loses_nothing_and_repeats_nothing_in_the_log",
    ),
    (
        "a timer is consumed by the wake that it started, which then dies",
        "session/suite/leases.rs",
        "a_timer_outlives_the_worker_that_it_woke",
    ),
    (
        "a wake is promised and never queued",
        "wakes/directives.rs",
        "queued_wakes_are_kept_by_key_and_told_when_they_come",
    ),
    ("a torn write is glued to the next one", "session/faults.rs", "a_cut_write_leaves_a_whole_log"),
    ("a session stays running for ever", "session/suite/leases.rs", "a_poison_message_is_set_aside"),
    (
        "a worker whose lease expired comes back and commits",
        "session/suite/leases.rs",
        "a_lost_lease_can_do_no_harm",
    ),
    ("two workers take the same wake", "wakes/workers.rs", "two_workers_on_a_server_share_the_work"),
    ("a clock that jumps makes a lease eternal or void", "session/suite/leases.rs", "the_clock_is_set_back"),
    ("the same wake is queued twice", "session/suite/endings.rs", "the_first_of_two_equal_wakes_stands"),
    (
        "learnings of two sessions overwrite each other",
        "session/suite/endings.rs",
        "learnings_outlive_the_session_and_are_kept_once",
    ),
    (
        "history is in the order of clocks: a reply before what led to it",
        "wakes/pauses.rs",
        "native_pauses_and_resumes",
    ),
    (
        "a provider that refuses is asked again for ever",
        "wakes/troubles.rs",
        "a_provider_error_passes_or_stops",
    ),
    ("the past is read and none of it is sent", "wakes/memory.rs", "a_long_past_is_bounded_and_reported"),
    (
        "what the agent wrote down is overwritten",
        "wakes/memory.rs",
        "what_the_agent_writes_survives_and_the_checkpoint_is_not_its_to_write",
    ),
    (
        "one approval runs a tool as often as the model likes",
        "wakes/confirmations.rs",
        "native_runs_an_allowed_call_once",
    ),
    (
        "a message during a pause drops the question",
        "session/suite/pauses.rs",
        "a_message_and_a_timer_wait_behind_a_pause",
    ),
    (
        "an input that comes during a run is taken for done",
        "session/suite/leases.rs",
        "a_message_that_comes_meanwhile_waits_for_the_next_wake",
    ),
    (
        "a run in progress cannot be stopped",
        "wakes/troubles.rs",
        "an_interrupt_stops_a_run_in_progress_and_goes_ahead_of_what_waits",
    ),
    ("a session cannot be ended", "wakes/troubles.rs", "a_session_that_is_terminated_takes_its_run_along"),
    (
        "a directive that cannot be read becomes a silent sleep",
        "wakes/directives.rs",
        "a_directive_that_stays_malformed_is_recorded_and_the_session_is_rescheduled",
    ),
    (
        "one run instructs the next",
        "wakes/memory.rs",
        "one_run_cannot_instruct_the_next_through_memory_or_learnings",
    ),
    ("a full disk loses what was acknowledged", "session/faults.rs", "no_room_loses_nothing_and_passes"),
    (
        "a server that goes away takes something with it",
        "session/server.rs",
        "the_server_crashes_and_comes_back",
    ),
];

/// Bad input and faults from outside that a session must survive, and what shows it: a test, or where one would take too
/// long, a bench.
const FAULTS: &[(&str, &str, &str)] = &[
    ("a duplicate message", "tests/session/suite/appends.rs", "an_append_is_idempotent"),
    ("a duplicate result", "tests/session/suite/pauses.rs", "an_answer_counts_once_and_for_its_input"),
    ("a stale result", "tests/wakes/pauses.rs", "an_answer_comes_too_late"),
    (
        "a mismatched result",
        "tests/session/ingress.rs",
        "answers_are_matched_by_request_kind_input_and_time_and_count_once",
    ),
    ("an oversized message or result", "tests/session/ingress.rs", "empty_and_oversized_ones_are_refused"),
    ("an unknown session", "tests/session/suite/appends.rs", "an_unknown_session_is_no_session"),
    ("two workers", "tests/wakes/workers.rs", "two_workers_on_a_server_share_the_work"),
    (
        "a worker whose lease expired and that comes back",
        "tests/session/suite/leases.rs",
        "a_lost_lease_can_do_no_harm",
    ),
    ("clock jumps", "tests/session/suite/leases.rs", "the_clock_is_set_back"),
    (
        "SIGKILL at every commit point",
        "tests/session/kill.rs",
        "killed_at_every_step_nothing_acknowledged_is_lost",
    ),
    (
        "SIGKILL of a writer to a server",
        "tests/session/server.rs",
        "writers_killed_at_any_time_lose_nothing_acknowledged",
    ),
    (
        "SIGKILL in the middle of a run",
        "tests/wakes/workers.rs",
        "a_worker_that_is_killed_loses_nothing_and_repeats_nothing_in_the_log",
    ),
    ("torn writes", "tests/session/faults.rs", "a_cut_write_leaves_a_whole_log"),
    ("a full disk", "tests/session/faults.rs", "a_full_disk_loses_nothing_that_was_acknowledged"),
    ("a database that goes and comes back", "tests/session/server.rs", "the_server_crashes_and_comes_back"),
    (
        "a database that goes and comes back during a run",
        "tests/wakes/workers.rs",
        "a_server_that_goes_away_and_comes_back_costs_no_work",
    ),
    ("a session of a million events", "bench/session/length.rs", "run"),
    ("ten thousand sessions", "bench/session/length.rs", "run_siblings"),
];

#[test]
fn every_fault_has_what_shows_that_it_is_survived() {
    let tests = WAYS.iter().map(|(way, file, test)| (*way, format!("tests/{file}"), *test));
    let faults = FAULTS.iter().map(|(fault, file, name)| (*fault, (*file).to_owned(), *name));
    let missing: Vec<&str> = tests
        .chain(faults)
        .filter(|(_, file, name)| {
            let text = fs::read_to_string(root().join(file)).unwrap_or_default();
            !text.contains(&format!("fn {name}("))
        })
        .map(|(what, _, _)| what)
        .collect();
    assert!(missing.is_empty(), "nothing stands against: {missing:?}");
}
