//! Classes of simulated paths with one loaded link.

/// A capacity, and the names of its rows by batching and traffic.
pub struct PathClass {
    pub capacity_bps: f64,
    pub names: [[&'static str; 3]; 3],
    pub capacity_name: &'static str,
}

pub const PATH_CLASSES: [PathClass; 6] = [
    PathClass {
        capacity_bps: 1e7,
        names: [
            [
                "available, 10 Mbit/s, batches 0 µs, Poisson",
                "available, 10 Mbit/s, batches 0 µs, bursty",
                "available, 10 Mbit/s, batches 0 µs, heavy-tailed",
            ],
            [
                "available, 10 Mbit/s, batches 50 µs, Poisson",
                "available, 10 Mbit/s, batches 50 µs, bursty",
                "available, 10 Mbit/s, batches 50 µs, heavy-tailed",
            ],
            [
                "available, 10 Mbit/s, batches 125 µs, Poisson",
                "available, 10 Mbit/s, batches 125 µs, bursty",
                "available, 10 Mbit/s, batches 125 µs, heavy-tailed",
            ],
        ],
        capacity_name: "capacity, 10 Mbit/s",
    },
    PathClass {
        capacity_bps: 5e7,
        names: [
            [
                "available, 50 Mbit/s, batches 0 µs, Poisson",
                "available, 50 Mbit/s, batches 0 µs, bursty",
                "available, 50 Mbit/s, batches 0 µs, heavy-tailed",
            ],
            [
                "available, 50 Mbit/s, batches 50 µs, Poisson",
                "available, 50 Mbit/s, batches 50 µs, bursty",
                "available, 50 Mbit/s, batches 50 µs, heavy-tailed",
            ],
            [
                "available, 50 Mbit/s, batches 125 µs, Poisson",
                "available, 50 Mbit/s, batches 125 µs, bursty",
                "available, 50 Mbit/s, batches 125 µs, heavy-tailed",
            ],
        ],
        capacity_name: "capacity, 50 Mbit/s",
    },
    PathClass {
        capacity_bps: 1e8,
        names: [
            [
                "available, 100 Mbit/s, batches 0 µs, Poisson",
                "available, 100 Mbit/s, batches 0 µs, bursty",
                "available, 100 Mbit/s, batches 0 µs, heavy-tailed",
            ],
            [
                "available, 100 Mbit/s, batches 50 µs, Poisson",
                "available, 100 Mbit/s, batches 50 µs, bursty",
                "available, 100 Mbit/s, batches 50 µs, heavy-tailed",
            ],
            [
                "available, 100 Mbit/s, batches 125 µs, Poisson",
                "available, 100 Mbit/s, batches 125 µs, bursty",
                "available, 100 Mbit/s, batches 125 µs, heavy-tailed",
            ],
        ],
        capacity_name: "capacity, 100 Mbit/s",
    },
    PathClass {
        capacity_bps: 3e8,
        names: [
            [
                "available, 300 Mbit/s, batches 0 µs, Poisson",
                "available, 300 Mbit/s, batches 0 µs, bursty",
                "available, 300 Mbit/s, batches 0 µs, heavy-tailed",
            ],
            [
                "available, 300 Mbit/s, batches 50 µs, Poisson",
                "available, 300 Mbit/s, batches 50 µs, bursty",
                "available, 300 Mbit/s, batches 50 µs, heavy-tailed",
            ],
            [
                "available, 300 Mbit/s, batches 125 µs, Poisson",
                "available, 300 Mbit/s, batches 125 µs, bursty",
                "available, 300 Mbit/s, batches 125 µs, heavy-tailed",
            ],
        ],
        capacity_name: "capacity, 300 Mbit/s",
    },
    PathClass {
        capacity_bps: 1e9,
        names: [
            [
                "available, 1 Gbit/s, batches 0 µs, Poisson",
                "available, 1 Gbit/s, batches 0 µs, bursty",
                "available, 1 Gbit/s, batches 0 µs, heavy-tailed",
            ],
            [
                "available, 1 Gbit/s, batches 50 µs, Poisson",
                "available, 1 Gbit/s, batches 50 µs, bursty",
                "available, 1 Gbit/s, batches 50 µs, heavy-tailed",
            ],
            [
                "available, 1 Gbit/s, batches 125 µs, Poisson",
                "available, 1 Gbit/s, batches 125 µs, bursty",
                "available, 1 Gbit/s, batches 125 µs, heavy-tailed",
            ],
        ],
        capacity_name: "capacity, 1 Gbit/s",
    },
    PathClass {
        capacity_bps: 1e10,
        names: [
            [
                "available, 10 Gbit/s, batches 0 µs, Poisson",
                "available, 10 Gbit/s, batches 0 µs, bursty",
                "available, 10 Gbit/s, batches 0 µs, heavy-tailed",
            ],
            [
                "available, 10 Gbit/s, batches 50 µs, Poisson",
                "available, 10 Gbit/s, batches 50 µs, bursty",
                "available, 10 Gbit/s, batches 50 µs, heavy-tailed",
            ],
            [
                "available, 10 Gbit/s, batches 125 µs, Poisson",
                "available, 10 Gbit/s, batches 125 µs, bursty",
                "available, 10 Gbit/s, batches 125 µs, heavy-tailed",
            ],
        ],
        capacity_name: "capacity, 10 Gbit/s",
    },
];
