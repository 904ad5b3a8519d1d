//! What do theory and a round model say of windows and streams on a path?
