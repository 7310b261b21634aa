//! Stories about members that change.
