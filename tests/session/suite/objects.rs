//! Objects of sessions: in the store, or in a directory that workers share.

use std::path::Path;
use std::sync::{Arc, Mutex};

use super::{Place, over_stores};
use crate::fixture::{Clock, Directory, message};
use session::{
    DirectoryObjects, MAX_OBJECT_BYTES, RemoveTerms, SessionError, SessionId, SessionRefusal, Sessions,
    SharedObjects, StoreError,
};

over_stores!(
    an_object_is_read_over_another_connection,
    an_object_in_a_directory_is_read_by_another_worker,
    a_damaged_object_is_refused,
    objects_leave_with_their_session,
    an_object_needs_a_session_and_room,
    an_object_store_that_fails_loses_nothing,
);

fn in_directory(path: &Path) -> SharedObjects {
    let warn = Arc::new(|message: &str| panic!("{message}"));
    SharedObjects { store: Arc::new(DirectoryObjects(path.to_owned())), warn }
}

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
    let open = || place.open().with_objects(in_directory(&shared.path().join("objects")));
    open().put_object(id, "run/1", b"beside it").unwrap();
    open().put_object(id, "run/2", b"beside it").unwrap();
    assert_eq!(open().object(id, "run/1").unwrap().as_deref(), Some(&b"beside it"[..]));
    assert_eq!(open().object(id, "run/0").unwrap().as_deref(), Some(&b"in the store"[..]));
    let lost = place.open().object(id, "run/1");
    assert!(
        matches!(&lost, Err(SessionError::Store(StoreError::Unavailable { source, .. })) if source.to_string().contains("--objects")),
        "{lost:?}"
    );
    open().remove_object(id, "run/1").unwrap();
    assert_eq!(open().object(id, "run/2").unwrap().as_deref(), Some(&b"beside it"[..]), "same content");
}

fn a_damaged_object_is_refused(place: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = create(sessions, clock);
    let shared = Directory::new();
    let mut sharing = place.open().with_objects(in_directory(shared.path()));
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
    let mut sharing = place.open().with_objects(in_directory(shared.path()));
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

/// While the directory is away, the store takes the contents of new objects. An old one is unavailable, not lost.
fn an_object_store_that_fails_loses_nothing(place: &Place, sessions: &mut Sessions, clock: &mut Clock) {
    let id = create(sessions, clock);
    let shared = Directory::new();
    let path = shared.path().join("mounted");
    std::fs::create_dir(&path).unwrap();
    let said = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&said);
    let warn = Arc::new(move |message: &str| heard.lock().unwrap().push(message.to_owned()));
    let mut sharing =
        place.open().with_objects(SharedObjects { store: Arc::new(DirectoryObjects(path.clone())), warn });
    sharing.put_object(id, "run/1", b"one").unwrap();
    // Something else is where the directory was.
    std::fs::rename(&path, shared.path().join("away")).unwrap();
    std::fs::write(&path, "").unwrap();
    sharing.put_object(id, "run/2", b"two").unwrap();
    assert_eq!(sharing.object(id, "run/2").unwrap().as_deref(), Some(&b"two"[..]));
    let away = sharing.object(id, "run/1");
    assert!(matches!(&away, Err(SessionError::Store(StoreError::Unavailable { .. }))), "{away:?}");
    let heard = said.lock().unwrap().clone();
    assert!(heard.len() == 1 && heard[0].contains("`run/2`") && heard[0].contains("mounted"), "{heard:?}");
    std::fs::remove_file(&path).unwrap();
    std::fs::rename(shared.path().join("away"), &path).unwrap();
    for (name, content) in [("run/1", &b"one"[..]), ("run/2", b"two")] {
        assert_eq!(sharing.object(id, name).unwrap().as_deref(), Some(content));
    }
}
