//! A position on the earth as a unit vector. The earth is taken as a sphere. The nearer two points are along a great circle, the
//! nearer they are along the chord, also across the antimeridian and over a pole.
//!
//! The sphere errs by up to 0.6 % against the ellipsoid. Sine, cosine and arc sine come from `libm` in software, so that
//! every machine gets the same bits.

use core::f64::consts::PI;

use smol_str::{SmolStr, format_smolstr};

/// A point of the unit sphere.
pub(super) type Vector = [f64; 3];

/// Millionths of a degree from the middle to the antimeridian.
const LONGITUDE_MAX: i32 = 180_000_000;

/// Millionths of a degree from the equator to a pole.
const LATITUDE_MAX: i32 = 90_000_000;

/// The mean radius of the earth, R1 of the Geodetic Reference System 1980, in millimetres.
const RADIUS_MM: f64 = 6_371_008_771.4;

/// Checks that a longitude and a latitude, in millionths of a degree, are on the earth.
///
/// # Errors
/// The reason if they are not.
pub fn check_position((longitude, latitude): (i32, i32)) -> Result<(), SmolStr> {
    if !(-LONGITUDE_MAX..=LONGITUDE_MAX).contains(&longitude) {
        return Err(format_smolstr!("longitude {longitude} is not within 180000000 millionths of a degree"));
    }
    if !(-LATITUDE_MAX..=LATITUDE_MAX).contains(&latitude) {
        return Err(format_smolstr!("latitude {latitude} is not within 90000000 millionths of a degree"));
    }
    Ok(())
}

/// The point of the sphere with this longitude and latitude.
pub(super) fn vector((longitude, latitude): (i32, i32)) -> Vector {
    // A pole has every longitude, and the antimeridian two. A sine of π would make them different points.
    if latitude.abs() == LATITUDE_MAX {
        return [0.0, 0.0, f64::from(latitude.signum())];
    }
    let longitude = if longitude == -LONGITUDE_MAX { LONGITUDE_MAX } else { longitude };
    let radians = |millionths: i32| f64::from(millionths) * (PI / f64::from(LONGITUDE_MAX));
    let (longitude, latitude) = (radians(longitude), radians(latitude));
    let from_axis = libm::cos(latitude);
    [from_axis * libm::cos(longitude), from_axis * libm::sin(longitude), libm::sin(latitude)]
}

/// The distance of two points along the great circle, in millimetres, from the square of their chord.
///
/// Near the antipode the chord hardly changes. There the error is up to 0.2 m.
pub(super) fn distance_mm(chord_2: f64) -> u64 {
    let half_chord = libm::sqrt(chord_2) / 2.0;
    // Rounding may make the longest chord longer than the diameter.
    let angle = 2.0 * libm::asin(half_chord.min(1.0));
    libm::round(angle * RADIUS_MM) as u64
}
