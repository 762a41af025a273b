//! How far two sides of a few runs each differ: numbers in, numbers out.
//!
//! # Method
//!
//! Runs of one side are few, skewed, have outliers from shared machines, and are often counted in ticks. So nothing
//! is assumed about their distribution but that the candidate's is the baseline's, scaled (or shifted):
//!
//! * The **test** is the exact rank-sum test of Wilcoxon, Mann and Whitney (1, 2): of all pairs of a baseline run and
//!   a candidate run, it counts the pairs whose candidate value is larger. If the sides do not differ,
//!   every assignment of the values to the sides is equally likely, which gives the distribution of that count. It is
//!   computed exactly up to 128 runs of both sides together, and approximated by a normal distribution above.
//! * The **interval** contains every factor that the test does not reject at 5 %: for ratios the interval of Hodges,
//!   Lehmann and Moses (3, 4) on logarithms. Its ends are two of the sorted ratios of all pairs.
//! * **Paired** runs, which were next to each other in time, share what the machine did then: its frequency, its other
//!   tenants. Their changes vary less than the runs. For them, the test is the signed-rank test of Wilcoxon (1), and the
//!   ends of its interval, by Tukey (4, section 3.3), are two of the sorted averages of two changes, on logarithms
//!   for ratios. It assumes that the change of a pair varies symmetrically, which the order of the runs of a pair by
//!   turns (A B B A) makes true where there is none. It is exact up to 120 pairs.
//! * **Ties** widen it (5): the coverage of 95 % is a lower limit. So does **quantization**: with values counted in
//!   units of q, the lower end is computed from baseline values enlarged by q and candidate values reduced by q, the
//!   upper end the other way round.
//! * The **estimate** is the median of the ratios, or of the averages, two of which are the ends of the interval (Hodges and
//!   Lehmann), so that it is what the interval is about. The change of the medians, which readers see, can differ a little.
//! * **Several gates** are corrected by Holm's method (6), which gives each gate the level of its interval. That interval
//!   is printed, and decides. A few pairs cannot decide many gates, however clear they are: the
//!   p-value of 6 pairs is at least 1/64. Where the number of pairs does not suffice for the number of gates, all gates are
//!   decided by the rank-sum test of the runs without their pairs, which has a p-value from 1/924 on. The choice depends on
//!   these numbers alone, so it does not raise the level. Drift makes that test miss changes, not find wrong ones.
//! * **Several looks** at runs that end once they decide share the level of one: see [`Looks`].
//!
//! Nothing is drawn at random, so equal input gives equal output. Outliers have the influence of their rank only:
//! the interval of ten runs a side ignores the most extreme two runs of a side nearly completely. A bootstrap
//! interval of ten values would cover less than it claims, and would need a seed. A crate such as statrs would add
//! dependencies for the two dozen lines of the distribution below, and has no exact one.
//!
//! 1. F. Wilcoxon, Individual comparisons by ranking methods, Biometrics Bulletin 1 (1945)
//! 2. H. B. Mann, D. R. Whitney, On a test of whether one of two random variables is stochastically larger than the
//!    other, Annals of Mathematical Statistics 18 (1947)
//! 3. D. F. Bauer, Constructing confidence sets using rank statistics, Journal of the American Statistical
//!    Association 67 (1972)
//! 4. M. Hollander, D. A. Wolfe, E. Chicken, Nonparametric Statistical Methods, 3rd ed. (2014), section 4.3;
//!    E. L. Lehmann, Nonparametrics (1975), section 2.6
//! 5. G. E. Noether, Wilcoxon confidence intervals for location parameters in the discrete case, Journal of the
//!    American Statistical Association 62 (1967)
//! 6. S. Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6 (1979)

mod bound;
mod design;
mod distribution;
mod estimate;
mod looks;
mod power;

pub use self::{bound::*, design::*, estimate::*, looks::*, power::*};

/// Maximum probability that an interval misses the true value on one side: 95% intervals. If runs are looked at several times, all
/// looks together have this probability.
pub const TAIL: f64 = 0.025;
