//! The API as others meet it: over sockets, on an archive in a folder of its own.

mod answers;
mod document;
mod hostile;
mod news;
mod notes;
mod openapi_document;
mod orders;
mod prometheus;
mod scene;
mod trouble;
