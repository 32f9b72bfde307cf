//! Every scene of the other files once more, with the program run by somebody without privileges: sessions, workers and their
//! sandboxes need none.

use std::fs;

use super::stage::as_user;
use crate::support::root;

macro_rules! scenes {
    ($($module:ident: [$($scene:ident),* $(,)?]),* $(,)?) => {
        $(mod $module {
            $(#[test]
            fn $scene() {
                super::as_user(super::super::$module::$scene);
            })*
        })*

        const SCENES: &[(&str, &[&str])] = &[$((stringify!($module), &[$(stringify!($scene)),*])),*];
    };
}

scenes! {
    confirmations: [
        native_runs_an_allowed_call_once,
        claude_runs_an_allowed_call_once,
        codex_runs_an_allowed_call_once,
        a_denied_call_does_not_run_and_the_agent_hears_why,
        a_plain_run_denies_what_nobody_can_allow,
    ],
    directives: [
        a_malformed_directive_is_fed_back_once_and_mended,
        a_directive_that_stays_malformed_is_recorded_and_the_session_is_rescheduled,
        the_directive_and_the_output_must_both_pass,
        going_on_by_itself_has_a_bound_and_a_word_from_outside_starts_it_anew,
        queued_wakes_are_kept_by_key_and_told_when_they_come,
        learnings_reach_the_next_session_of_the_agent,
    ],
    memory: [
        what_the_agent_writes_survives_and_the_checkpoint_is_not_its_to_write,
        one_run_cannot_instruct_the_next_through_memory_or_learnings,
        the_learned_scanner_reads_learnings_too,
        resources_are_mounted_as_they_were_given,
        resources_are_scanned_before_they_are_mounted,
        a_large_resource_is_looked_through_and_named,
        an_environment_stands_over_the_harness_and_may_not_change_under_a_session,
        a_long_past_is_bounded_and_reported,
        a_memory_file_that_the_agent_deletes_is_gone,
        a_repository_named_session_can_be_woken,
    ],
    pauses: [
        native_pauses_and_resumes,
        claude_pauses_and_resumes,
        codex_pauses_and_resumes,
        another_brain_takes_over_in_the_middle,
        an_answer_comes_to_native_the_next_day,
        an_answer_comes_to_claude_the_next_day,
        an_answer_comes_to_codex_the_next_day,
        an_answer_comes_too_late,
        several_questions_wait_for_all_answers,
        an_interrupt_ends_a_pause,
    ],
    troubles: [
        a_provider_error_passes_or_stops,
        scripts_know_the_wake_and_a_repeated_one_has_the_same_name,
        a_process_that_runs_a_wake_leaves_no_core_dump,
        an_interrupt_stops_a_run_in_progress_and_goes_ahead_of_what_waits,
        an_interrupt_stops_claude,
        an_interrupt_stops_codex,
        a_session_that_is_terminated_takes_its_run_along,
        a_signal_ends_the_run_in_order_and_the_work_is_tried_again,
    ],
    workers: [
        one_worker_with_two_hands_drains_what_is_due,
        a_worker_that_is_killed_loses_nothing_and_repeats_nothing_in_the_log,
        a_worker_that_is_killed_over_claude,
        a_worker_that_is_killed_over_codex,
        a_worker_watches_and_ends_when_asked,
        a_server_that_goes_away_and_comes_back_costs_no_work,
        two_workers_on_a_server_share_the_work,
        two_workers_on_a_server_share_the_work_of_claude,
        two_workers_on_a_server_share_the_work_of_codex,
    ],
}

#[test]
fn no_scene_is_left_out() {
    for (module, scenes) in SCENES {
        let path = root().join(format!("tests/wakes/{module}.rs"));
        let text = fs::read_to_string(path).unwrap();
        let written = text.split("#[test]\n").skip(1);
        let names: Vec<&str> =
            written.map(|part| part.trim_start_matches("pub fn ").split('(').next().unwrap()).collect();
        assert_eq!(names, *scenes, "{module}");
    }
}
