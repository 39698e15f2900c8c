// Plays launches that were written to a file once more, each array in memory of exactly its size; for sanitizers.
#include <cstdio>
#include <map>
#include <memory>
#include <string>

static unsigned long long number(FILE* file) {
    unsigned long long n = 0;
    if (fread(&n, 8, 1, file) != 1) n = ~0ull;
    return n;
}

static std::unique_ptr<char[]> bytes(FILE* file, size_t size) {
    std::unique_ptr<char[]> data(new char[size ? size : 1]);
    if (size && fread(data.get(), 1, size, file) != size) abort();
    return data;
}

int main(int argc, char** argv) {
    FILE* file = fopen(argv[1], "rb");
    for (;;) {
        const unsigned long long length = number(file);
        if (length == ~0ull) return 0;
        const auto text = bytes(file, length);
        const std::string name(text.get(), length);
        Launch how{(unsigned)number(file), (unsigned)number(file), 0, 4, 0, 0};
        std::vector<std::unique_ptr<char[]>> owned;
        std::map<unsigned long long, char*> known;  // one array passed twice stays one array
        std::vector<char*> pointers(number(file));
        std::vector<void*> args(pointers.size());
        for (size_t k = 0; k < args.size(); ++k) {
            const unsigned long long address = number(file), size = number(file);
            owned.push_back(bytes(file, size));
            args[k] = owned.back().get();
            if (address) {
                if (!known.count(address)) known[address] = owned.back().get();
                pointers[k] = known[address];
                args[k] = &pointers[k];
            }
        }
        how.seed = 7;
        dispatch(name, how, args.data());
    }
}
