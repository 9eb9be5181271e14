/* Context.h is C too: its static assertions hold in this file. */
#include "buddy/Context.h"

int contextSizeInC(void);
int contextSizeInC(void) { return (int)sizeof(struct buddy_ctx); }
