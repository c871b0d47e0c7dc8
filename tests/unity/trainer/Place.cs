using System;
using System.IO;

namespace Tau.Trainer.Tests
{
    /// <summary>A folder for one test, whose name has all that names of folders may have.</summary>
    public sealed class Place : IDisposable
    {
        /// <summary>Makes it.</summary>
        public Place()
        {
            Folder = Path.Combine(Path.GetTempPath(), "tau trainer ü 'ß\" " + Guid.NewGuid().ToString("N"));
            Directory.CreateDirectory(Folder);
        }

        /// <summary>Its path.</summary>
        public string Folder { get; }

        /// <summary>A path in it.</summary>
        public string this[string name] => Path.Combine(Folder, name);

        /// <summary>Writes a file in it, and returns its path.</summary>
        public string Write(string name, string text = "")
        {
            Directory.CreateDirectory(Path.GetDirectoryName(this[name]));
            File.WriteAllText(this[name], text);
            return this[name];
        }

        /// <inheritdoc/>
        public void Dispose()
        {
            Directory.Delete(Folder, true);
        }
    }
}
