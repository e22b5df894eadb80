//! The two layers below every packet: integers and strings inside a payload, and the framing
//! around it.

pub mod compressed;
pub mod frame;
mod reader;
mod write;

pub use reader::{Malformed, Reader};
pub use write::{
    put_lenenc_bytes, put_lenenc_int, put_nul_str, put_u16, put_u24, put_u32, put_u64,
};
