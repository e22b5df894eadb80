//! Plays the driver.
