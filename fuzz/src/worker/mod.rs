//! Target: the whole data plane without its sockets.
//!
//! Two workers that share one configuration, with played clients and servers. Every three bytes
//! of the input are one event (`program`); the `world` carries out what the workers ask for, as
//! the driver does, and checks after each event what must always hold. At the end everything
//! closes, in an order that the input chooses, and nothing may be left.

mod client;
mod program;
mod server;
mod world;

use program::Program;
use world::World;

/// Events from the input, one after the other. The first byte chooses how it ends.
pub fn worker(data: &[u8]) {
    let (end, data) = crate::choice(data);
    let mut world = World::new();
    for event in Program::new(data) {
        world.carry_out(event);
        world.check();
    }
    world.end(end & 1 != 0, end & 2 != 0);
}
