using System;
using System.Collections.Generic;
using System.IO;
using System.Text;

namespace Tau.Trainer
{
    /// <summary>Follows a text file that another process writes: whole lines, each once.</summary>
    public sealed class LineFile
    {
        private readonly string _path;
        private readonly List<byte> _rest = new List<byte>();
        private long _at;

        /// <summary>Follows this file from its start; it may not exist yet.</summary>
        public LineFile(string path)
        {
            _path = path;
        }

        /// <summary>The lines since the last call.</summary>
        public IReadOnlyList<string> Read()
        {
            var lines = new List<string>();
            var block = new byte[65536];
            try
            {
                const FileShare Anyone = FileShare.ReadWrite | FileShare.Delete;
                using (var file = new FileStream(_path, FileMode.Open, FileAccess.Read, Anyone))
                {
                    file.Seek(_at, SeekOrigin.Begin);
                    int count;
                    while ((count = file.Read(block, 0, block.Length)) > 0)
                    {
                        _at += count;
                        Split(block, count, lines);
                    }
                }
            }
            catch (Exception error) when (error is IOException || error is UnauthorizedAccessException)
            {
                return lines; // it is not there yet, or is being opened
            }
            return lines;
        }

        private void Split(byte[] block, int count, List<string> lines)
        {
            for (var index = 0; index < count; index++)
            {
                if (block[index] == (byte)'\n')
                {
                    lines.Add(Encoding.UTF8.GetString(_rest.ToArray()).TrimEnd('\r'));
                    _rest.Clear();
                }
                else
                {
                    _rest.Add(block[index]);
                }
            }
        }
    }
}
