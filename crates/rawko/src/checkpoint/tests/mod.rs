//! Real git in real repositories, in temporary folders.

mod altered;
mod bench;
mod changes;
mod hostile;
mod inspecting;
mod keeping;
mod landing;
mod nested;
mod others;
mod own;
mod places;
mod property;
mod rewinding;
mod sharing;
mod without_repository;
