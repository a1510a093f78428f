//! The `the-loop` program: everything is in the library.

fn main() -> std::process::ExitCode {
    the_loop::main()
}
