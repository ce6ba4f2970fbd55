//! holdfast's lock over HTTP and through the Rust client.

pub mod http;
pub mod rust_client;

pub use http::HoldfastHttp;
pub use rust_client::HoldfastRustClient;
