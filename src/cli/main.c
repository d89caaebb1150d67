#include "base/strutil.h"

int main(int argc, char **argv)
{
    return argc == 2 && streq(argv[1], "--version") ? 0 : 64;
}
