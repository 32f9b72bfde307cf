//! Objects of sessions: in the store, or in a directory that workers share.

use super::{Place, over_stores};
use crate::fixture::{Clock, Directory, message};
use session::{MAX_OBJECT_BYTES, RemoveTerms, SessionError, SessionId, SessionRefusal, Sessions, StoreError};

over_stores!(
    an_object_is_read_over_another_connection,
    an_object_in_a_directory_is_read_by_another_worker,
    a_damaged_object_is_refused,
    objects_leave_with_their_session,
    an_object_needs_a_session_and_room,
);

fn create(sessions: &mut Sessions, clock: &mut Clock) -> SessionId {
    let id = sessions.create(&clock.header("triage")).unwrap().header.id;
    sessions.append(id, &[clock.input(message("hello"))], &mut clock.seed()).unwrap();
    id
}

fn an_object_is_read_over_another_connection(place: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = create(sessions, clock);
    sessions.put_object(id, "conversation/native", b"one").unwrap();
    sessions.put_object(id, "conversation/native", b"two").unwrap();
    sessions.put_object(id, "run/1", &[0, 255, 10]).unwrap();
    let mut other = place.open();
    assert_eq!(other.object(id, "conversation/native").unwrap().as_deref(), Some(&b"two"[..]));
    assert_eq!(other.object_names(id).unwrap(), ["conversation/native", "run/1"]);
    other.remove_object(id, "conversation/native").unwrap();
    assert_eq!(sessions.object(id, "conversation/native").unwrap(), None);
    assert_eq!(sessions.object(id, "run/1").unwrap().as_deref(), Some(&[0, 255, 10][..]));
}

fn an_object_in_a_directory_is_read_by_another_worker(
    place: &Place,
    sessions: &mut Sessions,
    clock: &mut Clock,
) {
    let id = create(sessions, clock);
    sessions.put_object(id, "run/0", b"in the store").unwrap();
    let shared = Directory::new();
    let open = || place.open().with_objects(shared.path().join("objects"));
    open().put_object(id, "run/1", b"beside it").unwrap();
    open().put_object(id, "run/2", b"beside it").unwrap();
    assert_eq!(open().object(id, "run/1").unwrap().as_deref(), Some(&b"beside it"[..]));
    assert_eq!(open().object(id, "run/0").unwrap().as_deref(), Some(&b"in the store"[..]));
    let lost = place.open().object(id, "run/1");
    assert!(
        matches!(&lost, Err(SessionError::Store(StoreError::Corrupt { what, .. })) if what.contains("--objects")),
        "{lost:?}"
    );
    open().remove_object(id, "run/1").unwrap();
    assert_eq!(open().object(id, "run/2").unwrap().as_deref(), Some(&b"beside it"[..]), "same content");
}

fn a_damaged_object_is_refused(place: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = create(sessions, clock);
    let shared = Directory::new();
    let mut sharing = place.open().with_objects(shared.path().to_owned());
    sharing.put_object(id, "run/1", b"right").unwrap();
    let mut files = std::fs::read_dir(shared.path().join(id.to_string())).unwrap();
    let file = files.next().unwrap().unwrap().path();
    std::fs::write(&file, "wrong").unwrap();
    assert!(matches!(sharing.object(id, "run/1"), Err(SessionError::Store(StoreError::Corrupt { .. }))));
    std::fs::remove_file(&file).unwrap();
    assert!(matches!(sharing.object(id, "run/1"), Err(SessionError::Store(StoreError::Corrupt { .. }))));
    sharing.put_object(id, "run/1", b"right").unwrap();
    assert_eq!(sharing.object(id, "run/1").unwrap().as_deref(), Some(&b"right"[..]));
}

fn objects_leave_with_their_session(place: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = create(sessions, clock);
    sessions.put_object(id, "run/0", b"in the store").unwrap();
    let shared = Directory::new();
    let mut sharing = place.open().with_objects(shared.path().to_owned());
    sharing.put_object(id, "run/1", b"beside it").unwrap();
    sharing.remove(id, RemoveTerms::Any).unwrap();
    assert_eq!(sessions.object_names(id).unwrap(), [""; 0]);
    assert!(!shared.path().join(id.to_string()).exists());
}

fn an_object_needs_a_session_and_room(_: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let nobody = clock.header("triage").id;
    assert!(matches!(sessions.put_object(nobody, "run/1", b"x"), Err(SessionError::NoSession(_))));
    let id = create(sessions, clock);
    let large = vec![0; MAX_OBJECT_BYTES + 1];
    let refused = sessions.put_object(id, "run/1", &large);
    assert!(matches!(refused, Err(SessionError::Refused(SessionRefusal::TooLarge { .. }))));
}
