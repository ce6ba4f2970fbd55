/** Locks with fencing tokens from a holdfast cluster; begin with {@link io.holdfast.Holdfast}. */
package io.holdfast;
