//! The data plane: workers on threads, their mailboxes and sockets
