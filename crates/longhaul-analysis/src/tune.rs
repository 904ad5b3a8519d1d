//! Which setting to try next? A search that asks what limited the probe before.
