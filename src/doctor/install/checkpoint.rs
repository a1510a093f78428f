//! Named places of an install at which a test can hold it, to kill it there. In
//! the product's own build they are nothing.

use crate::base::env::Env;

/// Waits for ever when the surroundings name this place, after saying so in the
/// file that they name.
#[cfg(feature = "test-fakes")]
pub(super) async fn reach(env: &Env, place: &str) {
    if env.var("THE_LOOP_TEST_PARK") != Some(place) {
        return;
    }
    if let Some(mark) = env.var_os("THE_LOOP_TEST_PARKED") {
        let _ = fs_err::write(mark, place);
    }
    std::future::pending::<()>().await;
}

/// Nothing.
#[cfg(not(feature = "test-fakes"))]
pub(super) fn reach(_: &Env, _: &str) -> std::future::Ready<()> {
    std::future::ready(())
}
