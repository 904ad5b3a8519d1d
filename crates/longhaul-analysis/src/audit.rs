//! Is this host set up for the given paths? Rules as data, judged on readings.
