// Stand-ins for UnityEngine: how the immediate-mode interface looks, and its text editor.
using System;

namespace UnityEngine
{
    public class GUIUtility
    {
        public static int keyboardControl { get; set; }

        public static string systemCopyBuffer { get; set; }

        public static object GetStateObject(Type t, int controlID) => default;
    }

    public class TextEditor
    {
        public TextEditor() { }

        public string text { get; set; }

        public int cursorIndex { get; set; }

        public int selectIndex { get; set; }

        public void MoveTextEnd() { }
    }

    public sealed class RectOffset
    {
        public RectOffset() { }

        public RectOffset(int left, int right, int top, int bottom) { }

        public int left { get; set; }

        public int right { get; set; }

        public int top { get; set; }

        public int bottom { get; set; }
    }

    public sealed class GUILayoutOption
    {
        internal GUILayoutOption() { }
    }

    public sealed class GUISkin : ScriptableObject
    {
        public GUISkin() { }

        public GUIStyle box { get; set; }

        public GUIStyle button { get; set; }

        public GUIStyle label { get; set; }

        public GUIStyle textArea { get; set; }

        public GUIStyle textField { get; set; }
    }

    public sealed class GUIStyle
    {
        public GUIStyle() { }

        public GUIStyle(GUIStyle other) { }

        public static GUIStyle none => default;

        public static implicit operator GUIStyle(string str) => default;

        public string name { get; set; }

        public TextAnchor alignment { get; set; }

        public Font font { get; set; }

        public int fontSize { get; set; }

        public FontStyle fontStyle { get; set; }

        public RectOffset margin { get; set; }

        public GUIStyleState normal { get; set; }

        public RectOffset padding { get; set; }

        public bool richText { get; set; }

        public bool wordWrap { get; set; }

        public Vector2 CalcSize(GUIContent content) => default;
    }

    public sealed class GUIStyleState
    {
        public GUIStyleState() { }

        public Color textColor { get; set; }
    }

    public sealed class Font : Object
    {
        public Font() { }

        public Font(string name) { }

        public static Font CreateDynamicFontFromOSFont(string fontname, int size) => default;

        public static Font CreateDynamicFontFromOSFont(string[] fontnames, int size) => default;
    }
}
