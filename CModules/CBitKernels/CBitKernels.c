#include "CBitKernels.h"
