#pragma once
/* Crash-test fault points: named places where a test build (-Dfault_points=true) can be made to die
 * as if by kill -9. OSB_FAULT=name or name:n kills the process the n-th time (from 1) that
 * FAULT_POINT("name") is passed. In other builds a fault point is nothing at all. */

#ifdef OSB_FAULT_POINTS
void fault_point(const char *name);
#define FAULT_POINT(name) fault_point(name)
#else
#define FAULT_POINT(name) ((void)0)
#endif
