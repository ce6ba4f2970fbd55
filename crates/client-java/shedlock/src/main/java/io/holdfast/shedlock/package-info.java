/** A lock provider for ShedLock. */
package io.holdfast.shedlock;
